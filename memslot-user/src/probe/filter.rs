//! Which calls are wanted: the probes leave the others out, and count them.

use crate::model::Class;
use memslot_common::settings::{ABSENT, Settings};
use std::fs;

/// What is wanted; by default everything. A condition that a probe does not know leaves its calls alone:
/// a translation has no slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only VMs and vhost devices of this process.
    pub pid: Option<u32>,
    /// Only this `vcpu_id`.
    pub vcpu: Option<u32>,
    /// Only faults on the slot of this id.
    pub slot: Option<u32>,
    /// Only translations of the queue of this index.
    pub queue: Option<u32>,
    /// Only faults of these classes; empty = all.
    pub classes: Vec<Class>,
    /// Only calls of at least so much wall time, ns.
    pub min_latency: u64,
}

impl Filter {
    pub(super) fn settings(&self, settings: &mut Settings) {
        settings.filter_pid = self.pid.unwrap_or(0);
        settings.filter_vcpu = self.vcpu.unwrap_or(ABSENT);
        settings.filter_slot = self.slot.unwrap_or(ABSENT);
        settings.filter_queue = self.queue.unwrap_or(ABSENT);
        settings.filter_kinds = self.classes.iter().fold(0, |kinds, class| kinds | 1 << class.code());
        settings.filter_min_latency = self.min_latency;
    }

    /// Threads of the process: vhost names its workers after the one that took the device.
    pub(super) fn threads(&self) -> Vec<u32> {
        let Some(pid) = self.pid else { return Vec::new() };
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
    }
}
