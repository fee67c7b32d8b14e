//! The probes of this host as a source.

use super::figures::Subject;
use super::source::{Error, Polled, Source, Tick};
use crate::chart::text::plain;
use crate::model::Probe;
use crate::probe::{self, Event, Filled, Histograms, Probes, Stream, bucket};
use crate::recording::Account;
use std::collections::BTreeMap;
use std::process::Child;
use std::time::Duration;

/// Events read at one look, so that the screen and the keys get their turn.
const BURST: usize = 100_000;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// One call in so many becomes an event; 0: none.
    pub every: u32,
    /// Length of an interval.
    pub interval: Duration,
}

/// Attached probes. They go when this goes.
pub struct Live {
    probes: Probes,
    stream: Stream,
    histograms: Histograms,
    accounts: BTreeMap<(Probe, u32), Account>,
    measured: Vec<Probe>,
    settings: Settings,
    /// What has come since the last interval ended.
    tick: Tick,
    /// When it ended, `CLOCK_MONOTONIC` ns.
    since: u64,
    /// While it runs, and then its last interval, we go on.
    command: Option<Child>,
    ended: bool,
}

impl Live {
    /// Reads attached probes of `measured`, until `command` ends, if there is one.
    ///
    /// # Errors
    /// When their ring was opened before.
    pub fn new(
        mut probes: Probes,
        measured: Vec<Probe>,
        settings: Settings,
        start: impl FnOnce() -> std::io::Result<Option<Child>>,
    ) -> Result<Self, Error> {
        let stream = Stream::open(&mut probes)?;
        let since = probe::clock().monotonic;
        // Only now, so that its first call is seen.
        let command = start().map_err(Error::Command)?;
        Ok(Self {
            probes,
            stream,
            histograms: Histograms::default(),
            accounts: BTreeMap::new(),
            measured,
            settings,
            tick: Tick::default(),
            since,
            command,
            ended: false,
        })
    }

    fn drain(&mut self) -> Result<usize, Error> {
        for read in 0..BURST {
            match self.stream.next(&mut self.probes)? {
                None => return Ok(read),
                Some(Event::Fault(fault)) => self.tick.add_fault(&fault),
                Some(Event::PleExit(exit)) => self.tick.add_ple_exit(&exit),
                Some(Event::Translation(call)) => self.tick.add_translation(&call),
                // Layouts are not shown.
                Some(_) => {}
            }
        }
        Ok(BURST)
    }

    /// Reads histograms and counters; the interval that ends.
    fn end_interval(&mut self) -> Result<Tick, Error> {
        let time = probe::clock().monotonic;
        let resolver = self.stream.resolver_mut();
        for (key, Filled { count, sum }) in self.histograms.read(&self.probes)? {
            let row = bucket(key, self.probes.knows_on_cpu(), time, count, sum, resolver);
            if let Some(row) = row {
                self.tick.add_bucket(&row);
            }
        }
        for &probe in &self.measured {
            for (subject, account) in self.probes.accounts(probe)? {
                let (vm, device) = resolver.of_subject(probe, subject);
                let before = self.accounts.insert((probe, subject), account).unwrap_or_default();
                self.tick.add_lost(probe, vm, device, account.since(&before).lost());
            }
        }
        let (vms, devices, _) = resolver.objects();
        let vms = vms.iter().map(|vm| (Subject::Vm(vm.vm), plain(&vm.name)));
        let devices = devices.iter().map(|device| (Subject::Device(device.device), plain(&device.worker)));
        self.tick.names = vms.chain(devices).collect();
        self.tick.give_windows();
        self.tick.time = time;
        self.tick.span = time.saturating_sub(self.since);
        self.tick.every = self.settings.every;
        self.since = time;
        Ok(std::mem::take(&mut self.tick))
    }

    /// Has the command ended?
    fn command_ended(&mut self) -> Result<bool, Error> {
        let Some(child) = &mut self.command else { return Ok(false) };
        let ended = child.try_wait().map_err(Error::Command)?.is_some();
        if ended {
            self.command = None;
        }
        Ok(ended)
    }
}

impl Source for Live {
    fn poll(&mut self) -> Result<Polled, Error> {
        if self.ended {
            return Ok(Polled::End);
        }
        if self.command_ended()? {
            self.ended = true;
            self.probes.detach();
            while self.drain()? > 0 {}
            return Ok(Polled::Tick(Box::new(self.end_interval()?)));
        }
        self.drain()?;
        let passed = probe::clock().monotonic.saturating_sub(self.since);
        if u128::from(passed) < self.settings.interval.as_nanos() {
            return Ok(Polled::Nothing);
        }
        self.stream.ask_again(&mut self.probes);
        Ok(Polled::Tick(Box::new(self.end_interval()?)))
    }

    fn title(&self) -> String {
        let host = probe::host();
        format!("{}, Linux {}", host.name, host.kernel)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // It was started for us and ends with us.
        if let Some(child) = &mut self.command {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
