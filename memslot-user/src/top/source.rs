//! Where the figures come from.

use super::figures::{Figures, Key, Subject};
use crate::model::{Bucket, DeviceId, Fault, PleExit, Probe, Translation, VmId};
use crate::probe::StreamError;
use crate::recording;
use std::collections::BTreeMap;

/// Why the figures end early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// A record of the probes is none of ours.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The kernel does not let us read the probes' maps.
    #[error("cannot read the probes' counters: {0}; run it as root")]
    Counters(#[from] aya::maps::MapError),
    /// The command could not be waited for.
    #[error("cannot wait for the command: {}", .0.kind())]
    Command(std::io::Error),
}

/// What came within an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tick {
    /// Its end, `CLOCK_MONOTONIC` ns.
    pub time: u64,
    /// Its length, ns.
    pub span: u64,
    /// Every call, by VM and device, from the kernel's histograms.
    pub counted: BTreeMap<Key, Figures>,
    /// Calls that became events, by vCPU and queue.
    pub seen: BTreeMap<Key, Figures>,
    /// One call in so many became an event, at random; 0: none did.
    pub every: u32,
    /// Names of VMs and of devices' workers.
    pub names: BTreeMap<Subject, String>,
}

impl Tick {
    /// Takes a later interval.
    pub fn merge(&mut self, later: Self) {
        self.time = later.time;
        self.span += later.span;
        self.every = later.every;
        for (into, from) in [(&mut self.counted, later.counted), (&mut self.seen, later.seen)] {
            for (key, figures) in from {
                into.entry(key).or_default().merge(&figures);
            }
        }
        self.names = later.names;
    }

    /// Calls lost in it.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.counted.values().map(|figures| figures.lost).sum()
    }

    pub(super) fn add_bucket(&mut self, bucket: &Bucket) {
        let subject = subject(bucket.vm, bucket.device);
        self.counted.entry(Key { subject, probe: bucket.probe }).or_default().add_bucket(bucket);
    }

    pub(super) fn add_lost(&mut self, probe: Probe, vm: Option<VmId>, device: Option<DeviceId>, lost: u64) {
        if lost > 0 {
            self.counted.entry(Key { subject: subject(vm, device), probe }).or_default().lost += lost;
        }
    }

    pub(super) fn add_fault(&mut self, fault: &Fault) {
        let subject = Subject::Vcpu(fault.vm, fault.vcpu);
        self.seen.entry(Key { subject, probe: Probe::PageFault }).or_default().add_fault(fault);
    }

    pub(super) fn add_ple_exit(&mut self, exit: &PleExit) {
        let subject = Subject::Vcpu(exit.vm, exit.vcpu);
        self.seen.entry(Key { subject, probe: Probe::Ple }).or_default().add_ple_exit(exit);
    }

    pub(super) fn add_translation(&mut self, call: &Translation) {
        let subject = Subject::Queue(call.device, call.queue);
        self.seen.entry(Key { subject, probe: Probe::Translate }).or_default().add_translation(call);
    }

    /// Gives each VM the windows of its vCPUs: the histograms do not tell them.
    pub(super) fn give_windows(&mut self) {
        for (key, figures) in &self.seen {
            let Subject::Vcpu(vm, _) = key.subject else { continue };
            if figures.window.is_some()
                && let Some(whole) = self.counted.get_mut(&Key { subject: Subject::Vm(vm), ..*key })
            {
                let window = Figures { window: figures.window, ..Figures::default() };
                whole.merge(&window);
            }
        }
    }
}

fn subject(vm: Option<VmId>, device: Option<DeviceId>) -> Subject {
    match (vm, device) {
        (Some(vm), _) => Subject::Vm(vm),
        (None, Some(device)) => Subject::Device(device),
        (None, None) => Subject::Others,
    }
}

/// What a source has to say just now.
#[derive(Clone, Debug)]
pub enum Polled {
    /// The interval is not over.
    Nothing,
    /// It is.
    Tick(Box<Tick>),
    /// Nothing will come any more.
    End,
}

/// Says what came within each interval.
pub trait Source {
    /// Looks; never waits for longer than it takes to read what is there.
    ///
    /// # Errors
    /// When what is read cannot be understood.
    fn poll(&mut self) -> Result<Polled, Error>;

    /// What is measured, in a line.
    fn title(&self) -> String;
}
