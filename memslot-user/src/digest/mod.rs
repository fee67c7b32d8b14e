//! What one streamed pass over a recording leaves behind: the figures that charts, tables and
//! `summary.json` share. Its size does not depend on the number of events.

mod counted;
mod group;
mod over_time;
mod read;
mod slots;
mod windows;

pub(crate) use counted::add_bucket;
pub use group::Group;
pub use over_time::{LostSpan, OverTime};
pub use slots::Slots;
pub use windows::{Span, Windows};

use crate::model::{Class, Fault, PleExit, Probe, SlotChange, Translation, VmId};
use crate::ple::Follower;
use crate::ple::window::Parameters;
use crate::recording::{Meta, ProbeMeta};
use crate::replay::{Lengths, ProbeReplay};
use crate::stats::Sample;
use std::collections::BTreeMap;

/// Where a probe's latencies and search lengths come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// Its events: every call is there.
    #[default]
    Events,
    /// The kernel's histograms, because events were lost or not asked for.
    Histogram,
}

impl Source {
    /// The name in JSON and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Histogram => "histogram",
        }
    }
}

/// The figures of one probe.
#[derive(Clone, Debug, Default)]
pub struct ProbeDigest {
    /// Events read.
    pub events: u64,
    /// Calls that the kernel's histograms hold.
    pub counted: u64,
    /// Where the latencies and lengths below come from.
    pub source: Source,
    /// Time on a CPU of every call, ns; empty where that is not known.
    pub on_cpu: Sample,
    /// Latency of every call, ns.
    pub latency: Sample,
    /// The same by what kind of call it was.
    pub by_group: BTreeMap<Group, Sample>,
    /// Nodes visited, of the calls that searched.
    pub visited: Lengths,
    /// Distinct nodes read, likewise.
    pub touched: Lengths,
    /// Latency by nodes visited, of the calls that searched.
    pub by_length: BTreeMap<u32, Sample>,
    /// Calls that searched, but whose walk could not be followed.
    pub unknown_length: u64,
    /// Calls by time and latency.
    pub over_time: OverTime,
}

impl ProbeDigest {
    fn add(&mut self, group: Group, time: u64, latency: u64, on_cpu: Option<u64>) {
        self.events += 1;
        self.over_time.add(time, latency, 1);
        if let Some(on_cpu) = on_cpu {
            self.on_cpu.add(on_cpu);
        }
        self.latency.add(latency);
        self.by_group.entry(group).or_default().add(latency);
    }

    /// Takes the figures of another recording of the same probe, but for times, which they do not share.
    pub fn merge(&mut self, other: &Self) {
        self.events += other.events;
        self.counted += other.counted;
        self.on_cpu.merge(&other.on_cpu);
        if other.source == Source::Histogram {
            self.source = Source::Histogram;
        }
        self.latency.merge(&other.latency);
        for (group, sample) in &other.by_group {
            self.by_group.entry(*group).or_default().merge(sample);
        }
        for (length, sample) in &other.by_length {
            self.by_length.entry(*length).or_default().merge(sample);
        }
        for (into, from) in [(&mut self.visited, &other.visited), (&mut self.touched, &other.touched)] {
            for (length, count) in &from.0 {
                *into.0.entry(*length).or_default() += count;
            }
        }
        self.unknown_length += other.unknown_length;
    }
}

/// What the yields of the PLE exits came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Yields {
    /// Calls of `yield_to`.
    pub tried: u64,
    /// Another vCPU was boosted.
    pub boosted: u64,
    /// The scheduler declined.
    pub declined: u64,
    /// Both run queues held one task.
    pub undercommit: u64,
}

/// A vCPU's windows as KVM's rules give them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuledWindows {
    /// Over time, as the recorded ones.
    pub windows: Windows,
    /// Exits.
    pub exits: u64,
    /// Of them with the recorded windows before and after.
    pub equal: u64,
}

/// The figures of a recording.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    /// What the recording is called in charts and tables: its label, else its directory's name.
    pub label: String,
    /// Where it comes from.
    pub meta: Meta,
    /// `kvm_mmu_page_fault`
    pub faults: ProbeDigest,
    /// The PLE exit handler.
    pub ple: ProbeDigest,
    /// `translate_desc`
    pub translations: ProbeDigest,
    /// What the yields of the PLE exits came to.
    pub yields: Yields,
    /// PLE windows over time, by VM and vCPU.
    pub windows: BTreeMap<(VmId, u32), Windows>,
    /// The same as KVM's rules give them, where the recording holds its parameters.
    pub ruled_windows: BTreeMap<(VmId, u32), RuledWindows>,
    /// What PLE policies would have done, where the recording has PLE exits.
    pub ple_analysis: Option<crate::ple::Recorded>,
    /// PLE policies under loads: that of 2012 in cycles, and one with the recording's unit and parameters.
    pub ple_simulated: Vec<crate::ple::Table>,
    /// Most slots that one address space of a VM held.
    pub slots: Option<u64>,
    /// Most regions of a vhost table that a translation searched.
    pub regions: Option<u64>,
    /// What the replays found.
    pub replays: Vec<ProbeReplay>,
    /// The slots of each VM and address space, with their accesses.
    pub layouts: BTreeMap<(VmId, u16), Slots>,
    follower: Option<Follower>,
}

impl Digest {
    /// An empty one.
    #[must_use]
    pub fn new(label: String, meta: Meta) -> Self {
        Self { label, meta, ..Self::default() }
    }

    /// Takes one fault.
    pub fn add_fault(&mut self, fault: &Fault) {
        self.faults.add(Group::of_fault(fault), fault.time, fault.latency, fault.on_cpu);
        if fault.slot.is_some() || fault.class == Class::NoSlot {
            let slots = self.layouts.entry((fault.vm, fault.as_id.into())).or_default();
            match fault.slot {
                Some(slot) => slots.access(slot),
                None => slots.no_slot += 1,
            }
        }
        if !fault.class.searches() {
            return;
        }
        match fault.length {
            Some(length) => {
                self.faults.visited.add(length.visited);
                self.faults.touched.add(length.touched);
                self.faults.by_length.entry(length.visited).or_default().add(fault.latency);
            }
            None => self.faults.unknown_length += 1,
        }
    }

    /// Takes one PLE exit.
    pub fn add_ple_exit(&mut self, exit: &PleExit) {
        self.ple.add(Group::of_ple_exit(exit), exit.time, exit.latency, exit.on_cpu);
        self.yields.tried += u64::from(exit.yields);
        self.yields.boosted += u64::from(exit.boosted);
        self.yields.declined += u64::from(exit.declined);
        self.yields.undercommit += u64::from(exit.undercommit);
        let windows = self.windows.entry((exit.vm, exit.vcpu)).or_default();
        windows.add(exit.time, exit.window.0);
        // The handler grows it right at its beginning, before it yields.
        windows.add(exit.time, exit.window.1);
        let Some((parameters, _)) = Parameters::of_recording(&self.meta) else { return };
        let ruled = self.follower.get_or_insert_with(|| Follower::new(parameters)).add(exit);
        let windows = self.ruled_windows.entry((exit.vm, exit.vcpu)).or_default();
        windows.windows.add(exit.time, ruled.0);
        windows.windows.add(exit.time, ruled.1);
        windows.exits += 1;
        windows.equal += u64::from(ruled == exit.window);
    }

    /// Takes one translation.
    pub fn add_translation(&mut self, translation: &Translation) {
        let group = Group::of_translation(translation);
        self.translations.add(group, translation.time, translation.latency, translation.on_cpu);
        self.regions = self.regions.max(Some(u64::from(translation.regions)));
        match translation.length {
            Some(length) => {
                self.translations.visited.add(length.visited);
                self.translations.touched.add(length.touched);
                self.translations.by_length.entry(length.visited).or_default().add(translation.latency);
            }
            None => self.translations.unknown_length += 1,
        }
    }

    /// Takes one change of a VM's slots, in order of time.
    pub fn add_slot_change(&mut self, change: &SlotChange) {
        let slots = self.layouts.entry((change.vm, change.as_id)).or_default();
        slots.change(change);
        self.slots = self.slots.max(u64::try_from(slots.live()).ok());
    }

    /// The figures of one probe.
    #[must_use]
    pub fn probe(&self, probe: Probe) -> &ProbeDigest {
        match probe {
            Probe::PageFault => &self.faults,
            Probe::Ple => &self.ple,
            Probe::Translate => &self.translations,
        }
    }

    fn probes_mut(&mut self) -> [(Probe, &mut ProbeDigest); 3] {
        [
            (Probe::PageFault, &mut self.faults),
            (Probe::Ple, &mut self.ple),
            (Probe::Translate, &mut self.translations),
        ]
    }

    /// How the probe was attached and its counters, if it was asked for.
    #[must_use]
    pub fn probe_meta(&self, probe: Probe) -> Option<&ProbeMeta> {
        self.meta.probes.get(&probe)
    }

    /// The replay of one probe's look-ups, if there was one.
    #[must_use]
    pub fn replay(&self, probe: Probe) -> Option<&ProbeReplay> {
        self.replays.iter().find(|replay| replay.probe == probe)
    }

    /// How many slots or regions the probe's searches ran over, at most.
    #[must_use]
    pub fn size(&self, probe: Probe) -> Option<u64> {
        match probe {
            Probe::PageFault => self.slots,
            Probe::Ple => None,
            Probe::Translate => self.regions,
        }
    }

    /// The label with the number of slots or regions, where that is known and the label lacks it.
    #[must_use]
    pub fn title(&self, probe: Probe) -> String {
        let what = if probe == Probe::PageFault { "slot" } else { "region" };
        match self.size(probe) {
            Some(size) if !self.label.contains(&size.to_string()) => {
                format!("{} ({size} {what}{})", self.label, if size == 1 { "" } else { "s" })
            }
            _ => self.label.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
