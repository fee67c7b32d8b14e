//! What is counted of a VM, a device, a vCPU or a queue.

use crate::digest::add_bucket;
use crate::model::{
    Bucket, CallKind, Class, DeviceId, Fault, PleExit, Probe, SearchLength, Translation, VmId,
};
use crate::stats::Sample;

/// Whose calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A VM's.
    Vm(VmId),
    /// A vhost device's.
    Device(DeviceId),
    /// A vCPU's.
    Vcpu(VmId, u32),
    /// A queue's; `None` where its index is not known.
    Queue(DeviceId, Option<u16>),
    /// Those of VMs and devices beyond the number that are told apart.
    Others,
}

/// Whose calls of which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Whose.
    pub subject: Subject,
    /// Of which function.
    pub probe: Probe,
}

/// PLE windows that were seen: PAUSEs (AMD) or TSC cycles (Intel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Time of the last, ns.
    pub time: u64,
    /// The last.
    pub last: u32,
    /// The smallest.
    pub low: u32,
    /// The largest.
    pub high: u32,
}

impl Window {
    fn join(self, other: Self) -> Self {
        Self {
            time: self.time.max(other.time),
            last: if other.time >= self.time { other.last } else { self.last },
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

/// Figures of an interval, or of several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Latencies, ns.
    pub latency: Sample,
    /// Searches whose length is known.
    pub searches: u64,
    /// Nodes that they visited.
    pub visited: u64,
    /// Searches for RAM whose length is known.
    pub ram: u64,
    /// Of them answered by the last-used slot.
    pub hits: u64,
    /// PLE windows, if any.
    pub window: Option<Window>,
    /// Calls lost.
    pub lost: u64,
}

impl Figures {
    /// Takes what came into a bucket of a histogram.
    pub(super) fn add_bucket(&mut self, bucket: &Bucket) {
        if !bucket.counts_calls() {
            return;
        }
        add_bucket(&mut self.latency, bucket.count, bucket.sum);
        if let Some(visited) = bucket.visited.filter(|_| bucket.kind.searches()) {
            self.search(visited, bucket.kind == CallKind::Ram, bucket.count);
        }
    }

    /// Takes one fault.
    pub(super) fn add_fault(&mut self, fault: &Fault) {
        self.latency.add(fault.latency);
        if let Some(SearchLength { visited, .. }) = fault.length.filter(|_| fault.class.searches()) {
            self.search(visited, fault.class == Class::Ram, 1);
        }
    }

    /// Takes one PLE exit.
    pub(super) fn add_ple_exit(&mut self, exit: &PleExit) {
        self.latency.add(exit.latency);
        let (before, after) = exit.window;
        let seen = Window { time: exit.time, last: after, low: before.min(after), high: before.max(after) };
        self.window = Some(self.window.map_or(seen, |known| known.join(seen)));
    }

    /// Takes one translation.
    pub(super) fn add_translation(&mut self, call: &Translation) {
        self.latency.add(call.latency);
        if let Some(SearchLength { visited, .. }) = call.length {
            self.search(visited, false, 1);
        }
    }

    fn search(&mut self, visited: u32, is_ram: bool, count: u64) {
        self.searches += count;
        self.visited += u64::from(visited) * count;
        if is_ram {
            self.ram += count;
            if visited == 0 {
                self.hits += count;
            }
        }
    }

    /// Takes the figures of another interval.
    pub(super) fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.searches += other.searches;
        self.visited += other.visited;
        self.ram += other.ram;
        self.hits += other.hits;
        self.lost += other.lost;
        self.window = match (self.window, other.window) {
            (Some(one), Some(other)) => Some(one.join(other)),
            (one, other) => one.or(other),
        };
    }
}
