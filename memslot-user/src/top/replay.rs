//! A recording as a source: interval by interval, as it came.

use super::figures::{Figures, Key, Subject};
use super::source::{Error, Polled, Source, Tick};
use crate::chart::text::plain;
use crate::model::{AccountRow, Bucket, Fault, PleExit, Translation};
use crate::recording::{Recording, Rows, Stored};
use std::iter::Peekable;
use std::time::{Duration, Instant};

/// Length of an interval where nothing but events tells of time, ns.
const SECOND: u64 = 1_000_000_000;

type Peeked<T> = Peekable<Rows<T>>;

/// A recording that is being replayed.
pub struct Replay {
    buckets: Peeked<Bucket>,
    accounts: Peeked<AccountRow>,
    faults: Peeked<Fault>,
    exits: Peeked<PleExit>,
    calls: Peeked<Translation>,
    title: String,
    names: Vec<(Subject, String)>,
    every: u32,
    /// A recording of version 1 has no histograms: VMs are counted by their events.
    without_histograms: bool,
    /// End of the interval before, ns.
    since: u64,
    /// How often faster than it happened; `None` as fast as can be.
    speed: Option<f64>,
    due: Option<Instant>,
}

/// One call in so many, by the mode's name.
fn every(mode: &str) -> u32 {
    match mode.strip_prefix("sample:") {
        Some(number) => number.parse().unwrap_or(0),
        None => u32::from(mode == "events"),
    }
}

/// Does the next row satisfy `is_due`? An error does, so that it is told.
fn next_if<T: Stored>(rows: &mut Peeked<T>, is_due: impl Fn(&T) -> bool) -> Result<Option<T>, Error> {
    Ok(rows.next_if(|row| row.as_ref().map_or(true, &is_due)).transpose()?)
}

fn peek<T: Stored>(rows: &mut Peeked<T>, time: impl Fn(&T) -> u64) -> Option<u64> {
    rows.peek().map(|row| row.as_ref().map_or(0, time))
}

impl Replay {
    /// Replays a recording, `speed` times faster than it happened, or as fast as can be.
    ///
    /// # Errors
    /// A table is missing or cannot be opened.
    pub fn new(recording: &Recording, speed: Option<f64>) -> Result<Self, Error> {
        let meta = recording.meta();
        let vms = meta.vms.iter().map(|vm| (Subject::Vm(vm.vm), plain(&vm.name)));
        let devices =
            meta.devices.iter().map(|device| (Subject::Device(device.device), plain(&device.worker)));
        let label = meta.label.clone().unwrap_or_default();
        Ok(Self {
            buckets: recording.histograms()?.peekable(),
            accounts: recording.accounts()?.peekable(),
            faults: recording.faults()?.peekable(),
            exits: recording.ple_exits()?.peekable(),
            calls: recording.translations()?.peekable(),
            title: plain(&format!("recording {label} of {}, Linux {}", meta.host.name, meta.host.kernel)),
            names: vms.chain(devices).collect(),
            every: every(&meta.mode),
            without_histograms: meta.probes.values().all(|probe| probe.counted.is_none()),
            since: meta.start.monotonic,
            speed,
            due: None,
        })
    }

    /// The end of the next interval; nothing where no row is left.
    fn next_end(&mut self) -> Option<u64> {
        let bucket = peek(&mut self.buckets, |bucket| bucket.time);
        let account = peek(&mut self.accounts, |row| row.time);
        if let Some(end) = [bucket, account].into_iter().flatten().min() {
            return Some(end);
        }
        let events = [
            peek(&mut self.faults, |fault| fault.time + fault.latency),
            peek(&mut self.exits, |exit| exit.time + exit.latency),
            peek(&mut self.calls, |call| call.time + call.latency),
        ];
        let first = events.into_iter().flatten().min()?;
        Some(first.max(self.since).saturating_add(SECOND))
    }

    fn read(&mut self, end: u64) -> Result<Tick, Error> {
        if self.since == 0 {
            self.since = end.saturating_sub(SECOND);
        }
        let mut tick = Tick {
            time: end,
            span: end.saturating_sub(self.since),
            every: self.every,
            names: self.names.iter().cloned().collect(),
            ..Tick::default()
        };
        while let Some(bucket) = next_if(&mut self.buckets, |bucket| bucket.time <= end)? {
            tick.add_bucket(&bucket);
        }
        while let Some(row) = next_if(&mut self.accounts, |row| row.time <= end)? {
            tick.add_lost(row.probe, row.vm, row.device, row.account.lost());
        }
        // An event comes when its call returns.
        let is_due = |time: u64, latency: u64| time.saturating_add(latency) <= end;
        while let Some(fault) = next_if(&mut self.faults, |fault| is_due(fault.time, fault.latency))? {
            tick.add_fault(&fault);
        }
        while let Some(exit) = next_if(&mut self.exits, |exit| is_due(exit.time, exit.latency))? {
            tick.add_ple_exit(&exit);
        }
        while let Some(call) = next_if(&mut self.calls, |call| is_due(call.time, call.latency))? {
            tick.add_translation(&call);
        }
        if self.without_histograms {
            count_events(&mut tick);
        }
        tick.give_windows();
        self.since = end;
        Ok(tick)
    }
}

/// Each VM's and device's calls are those of its vCPUs and queues.
fn count_events(tick: &mut Tick) {
    let seen: Vec<(Key, Figures)> = tick.seen.iter().map(|(key, figures)| (*key, figures.clone())).collect();
    for (key, figures) in seen {
        let subject = match key.subject {
            Subject::Vcpu(vm, _) => Subject::Vm(vm),
            Subject::Queue(device, _) => Subject::Device(device),
            other => other,
        };
        tick.counted.entry(Key { subject, ..key }).or_default().merge(&figures);
    }
}

impl Source for Replay {
    fn poll(&mut self) -> Result<Polled, Error> {
        if self.due.is_some_and(|due| Instant::now() < due) {
            return Ok(Polled::Nothing);
        }
        let Some(end) = self.next_end() else { return Ok(Polled::End) };
        let tick = self.read(end)?;
        if let Some(speed) = self.speed {
            // However long nothing happened, nobody waits for a minute.
            let wait = Duration::from_nanos(tick.span).div_f64(speed).min(Duration::from_secs(60));
            self.due = Some(Instant::now() + wait);
        }
        Ok(Polled::Tick(Box::new(tick)))
    }

    fn title(&self) -> String {
        self.title.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::every;

    #[test]
    fn the_mode_says_how_many_calls_are_events() {
        assert_eq!(["events", "histogram", "sample:100", "sample:x"].map(every), [1, 0, 100, 0]);
    }
}
