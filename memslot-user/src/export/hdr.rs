//! HdrHistogram's interval log: wall times by probe and kind of call, an interval of the recording each.
//!
//! <https://github.com/HdrHistogram/HdrHistogram> describes the format; its viewers take it as it is.

use super::Error;
use crate::digest::Group;
use crate::model::Probe;
use crate::recording::{Recording, Truncated};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Length of an interval where events are all there is, ns.
const SECOND: u64 = 1_000_000_000;

/// Largest time that is told apart, ns: an hour.
const MOST: u64 = 3_600_000_000_000;

/// Latencies that came in one interval, by its end, its probe and kind.
type Intervals = BTreeMap<(u64, String), Histogram<u64>>;

/// Writes the log; how many histograms it holds.
pub(super) fn write(recording: &Recording, out: &mut impl Write) -> Result<(u64, Option<Truncated>), Error> {
    let meta = recording.meta();
    let mut intervals = Intervals::new();
    let truncated = if meta.schema >= 2 {
        from_histograms(recording, &mut intervals)?
    } else {
        from_events(recording, &mut intervals)?
    };
    let failed = |error: &(dyn std::error::Error + 'static)| Error::of(Path::new("the histogram log"), error);
    let mut serializer = V2DeflateSerializer::new();
    let start = UNIX_EPOCH + Duration::from_nanos(meta.start.realtime);
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(&format!("memslot {}, values in ns", env!("CARGO_PKG_VERSION")))
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(1e6)
        .begin_log_with(out, &mut serializer)
        .map_err(|error| failed(&error))?;
    let mut before: BTreeMap<String, u64> = BTreeMap::new();
    for ((end, tag), histogram) in &intervals {
        let since = before.insert(tag.clone(), *end).unwrap_or(meta.start.monotonic);
        let at = |time: u64| Duration::from_nanos(time.saturating_sub(meta.start.monotonic));
        let length = Duration::from_nanos(end.saturating_sub(since));
        let name = Tag::new(tag).ok_or_else(|| Error::Encode(format!("{tag} is no tag")))?;
        log.write_histogram(histogram, at(since), length, Some(name))
            .map_err(|error| Error::Encode(format!("{error:?}")))?;
    }
    Ok((intervals.len() as u64, truncated))
}

fn tag(probe: Probe, kind: &str) -> String {
    format!("{}.{kind}", probe.name())
}

fn add(intervals: &mut Intervals, key: (u64, String), value: u64, count: u64) -> Result<(), Error> {
    let refused = |error: &dyn std::fmt::Debug| Error::Encode(format!("{error:?}"));
    let histogram = match intervals.entry(key) {
        std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
        std::collections::btree_map::Entry::Vacant(entry) => {
            entry.insert(Histogram::new_with_bounds(1, MOST, 3).map_err(|error| refused(&error))?)
        }
    };
    // Its lowest value is 1: what took no time that the clock shows stands there.
    histogram.saturating_record_n(value.max(1), count);
    Ok(())
}

/// Every call was counted; a bucket's values stand at its mean.
fn from_histograms(recording: &Recording, intervals: &mut Intervals) -> Result<Option<Truncated>, Error> {
    let mut rows = recording.histograms()?;
    for bucket in rows.by_ref() {
        let bucket = bucket?;
        if !bucket.counts_calls() {
            continue;
        }
        let key = (bucket.time, tag(bucket.probe, bucket.kind.name()));
        let (mean, above) = (bucket.sum / bucket.count, bucket.sum % bucket.count);
        add(intervals, key.clone(), mean, bucket.count - above)?;
        add(intervals, key, mean + 1, above)?;
    }
    Ok(rows.truncated())
}

/// Version 1 has events alone, of which every second makes an interval.
fn from_events(recording: &Recording, intervals: &mut Intervals) -> Result<Option<Truncated>, Error> {
    let start = recording.meta().start.monotonic;
    let end = |time: u64, latency: u64| {
        let seconds = (time + latency).saturating_sub(start) / SECOND + 1;
        start + seconds * SECOND
    };
    let mut faults = recording.faults()?;
    for fault in faults.by_ref() {
        let fault = fault?;
        let key = (end(fault.time, fault.latency), tag(Probe::PageFault, fault.class.name()));
        add(intervals, key, fault.latency, 1)?;
    }
    let mut exits = recording.ple_exits()?;
    for exit in exits.by_ref() {
        let exit = exit?;
        let key = (end(exit.time, exit.latency), tag(Probe::Ple, Group::of_ple_exit(&exit).key()));
        add(intervals, key, exit.latency, 1)?;
    }
    let mut calls = recording.translations()?;
    for call in calls.by_ref() {
        let call = call?;
        let key = (end(call.time, call.latency), tag(Probe::Translate, Group::of_translation(&call).key()));
        add(intervals, key, call.latency, 1)?;
    }
    Ok(faults.truncated().or(exits.truncated()).or(calls.truncated()))
}
