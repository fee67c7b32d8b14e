//! A probe's figures from the kernel's histograms, for recordings whose events are not complete.

use super::{Group, OverTime, ProbeDigest, Source};
use crate::model::{Bucket, HistogramClock, Probe};
use crate::stats::Sample;
use std::collections::BTreeMap;

/// log2 of the ns within which histograms are read once: about a second.
const INTERVAL: u32 = 30;

/// What the histograms of a recording hold, by probe.
#[derive(Debug, Default)]
pub(super) struct Counted(BTreeMap<Probe, ProbeDigest>);

/// Adds a bucket's values: their number and sum exactly, each as their mean, which lies in the bucket.
pub(crate) fn add_bucket(sample: &mut Sample, count: u64, sum: u64) {
    let Some(mean) = sum.checked_div(count) else { return };
    let above = sum % count;
    sample.add_many(mean, count - above);
    sample.add_many(mean + 1, above);
}

impl Counted {
    /// Takes what came into a bucket.
    pub(super) fn add(&mut self, bucket: &Bucket) {
        let figures = self.0.entry(bucket.probe).or_insert_with(|| ProbeDigest {
            over_time: OverTime::with_width(INTERVAL),
            ..ProbeDigest::default()
        });
        let (count, sum) = (bucket.count, bucket.sum);
        if bucket.clock != HistogramClock::Wall {
            add_bucket(&mut figures.on_cpu, count, sum);
        }
        if !bucket.counts_calls() {
            return;
        }
        figures.counted += count;
        if let Some(mean) = sum.checked_div(count) {
            // The end of an interval belongs to it.
            figures.over_time.add(bucket.time.saturating_sub(1), mean, count);
        }
        add_bucket(&mut figures.latency, count, sum);
        let group = Group::of_histogram(bucket.kind, bucket.visited);
        add_bucket(figures.by_group.entry(group).or_default(), count, sum);
        if !bucket.kind.searches() {
            return;
        }
        match bucket.visited {
            Some(visited) => {
                *figures.visited.0.entry(visited).or_default() += count;
                add_bucket(figures.by_length.entry(visited).or_default(), count, sum);
            }
            None => figures.unknown_length += count,
        }
    }

    /// Gives a probe's digest the number of calls counted, and, where its events are fewer, the figures.
    pub(super) fn complete(&mut self, probe: Probe, digest: &mut ProbeDigest) {
        let Some(figures) = self.0.remove(&probe) else { return };
        digest.counted = figures.counted;
        if digest.events >= figures.counted {
            return;
        }
        *digest = ProbeDigest {
            events: digest.events,
            source: Source::Histogram,
            // Only events tell of it.
            touched: std::mem::take(&mut digest.touched),
            ..figures
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{Counted, ProbeDigest, Source, add_bucket};
    use crate::digest::Group;
    use crate::model::{Bucket, CallKind, HistogramClock, Probe};
    use crate::stats::Sample;

    fn bucket(kind: CallKind, visited: Option<u32>, clock: HistogramClock, count: u64, sum: u64) -> Bucket {
        let (probe, low, high) = (Probe::PageFault, 0, u64::MAX);
        Bucket { time: 1, probe, vm: None, device: None, kind, visited, clock, low, high, count, sum }
    }

    #[test]
    fn a_bucket_keeps_number_and_sum_exactly() {
        let mut sample = Sample::default();
        add_bucket(&mut sample, 3, 1000);
        assert_eq!((sample.count(), sample.min(), sample.max()), (3, Some(333), Some(334)));
        assert_eq!(sample.mean(), Some(1000.0 / 3.0));
        add_bucket(&mut sample, 0, 0);
        assert_eq!(sample.count(), 3);
    }

    #[test]
    fn histograms_step_in_where_events_are_fewer_and_only_there() {
        let counted = || {
            let mut counted = Counted::default();
            counted.add(&bucket(CallKind::Ram, Some(0), HistogramClock::Both, 2, 20));
            counted.add(&bucket(CallKind::Ram, Some(4), HistogramClock::Wall, 1, 70));
            counted.add(&bucket(CallKind::Ram, Some(4), HistogramClock::OnCpu, 1, 30));
            counted.add(&bucket(CallKind::Shadow, None, HistogramClock::Both, 1, 5));
            counted
        };
        let mut sampled = ProbeDigest { events: 1, ..ProbeDigest::default() };
        counted().complete(Probe::PageFault, &mut sampled);
        assert_eq!((sampled.events, sampled.counted, sampled.source), (1, 4, Source::Histogram));
        assert_eq!((sampled.latency.count(), sampled.latency.max()), (4, Some(70)));
        assert_eq!((sampled.on_cpu.count(), sampled.on_cpu.max()), (4, Some(30)));
        assert_eq!(sampled.by_group[&Group::LastUsed].count(), 2);
        assert_eq!((sampled.visited.0[&0], sampled.visited.0[&4], sampled.unknown_length), (2, 1, 0));
        let mut whole = ProbeDigest { events: 4, ..ProbeDigest::default() };
        counted().complete(Probe::PageFault, &mut whole);
        assert_eq!((whole.counted, whole.source, whole.latency.count()), (4, Source::Events, 0));
    }
}
