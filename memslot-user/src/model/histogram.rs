//! Histograms and accounts as a recording keeps them: by interval, probe, and VM or device.

use super::{Class, DeviceId, Probe, VmId};
use crate::recording::Account;

/// Kinds of calls whose latency is told apart in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// Page fault: a slot covers the guest frame.
    Ram,
    /// Page fault: the kernel searched, and no slot covers the frame.
    NoSlot,
    /// Page fault: cached MMIO, emulated without a search.
    MmioCached,
    /// Page fault: shadow or nested paging.
    Shadow,
    /// Page fault whose search was not to be followed: which kind it was is not known.
    NotFollowed,
    /// PLE exit that boosted another vCPU.
    Boosted,
    /// PLE exit whose yields the scheduler declined.
    Declined,
    /// PLE exit whose yields failed because both run queues held one task.
    Undercommit,
    /// PLE exit that found no vCPU to yield to.
    NoYield,
    /// Translation through the memory table.
    MemoryTable,
    /// Translation through the device IOTLB.
    Iotlb,
    /// Translation that ended in an error.
    Failed,
}

impl CallKind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Ram,
        Self::NoSlot,
        Self::MmioCached,
        Self::Shadow,
        Self::NotFollowed,
        Self::Boosted,
        Self::Declined,
        Self::Undercommit,
        Self::NoYield,
        Self::MemoryTable,
        Self::Iotlb,
        Self::Failed,
    ];

    /// The kinds of a probe's calls, in the order of their codes in the kernel.
    #[must_use]
    pub fn of_probe(probe: Probe) -> &'static [Self] {
        match probe {
            Probe::PageFault => &Self::ALL[..5],
            Probe::Ple => &Self::ALL[5..9],
            Probe::Translate => &Self::ALL[9..],
        }
    }

    /// The name in tables and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ram => Class::Ram.name(),
            Self::NoSlot => Class::NoSlot.name(),
            Self::MmioCached => Class::MmioCached.name(),
            Self::Shadow => Class::Shadow.name(),
            Self::NotFollowed => "not_followed",
            Self::Boosted => "boosted",
            Self::Declined => "declined",
            Self::Undercommit => "undercommit",
            Self::NoYield => "no_yield",
            Self::MemoryTable => "memory_table",
            Self::Iotlb => "iotlb",
            Self::Failed => "failed",
        }
    }

    /// Does the kernel search for such a call?
    #[must_use]
    pub fn searches(self) -> bool {
        matches!(self, Self::Ram | Self::NoSlot | Self::MemoryTable | Self::Iotlb | Self::Failed)
    }
}

/// Which time a bucket counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HistogramClock {
    /// Wall time, which is the time on a CPU as well: the task never left it.
    Both,
    /// Wall time of calls in which the task left its CPU, or, where nobody looked, of all calls.
    Wall,
    /// Time on a CPU of the calls in which the task left it.
    OnCpu,
}

impl HistogramClock {
    /// All of them, in the order of their codes in the kernel.
    pub const ALL: [Self; 3] = [Self::Both, Self::Wall, Self::OnCpu];

    /// The name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Wall => "wall",
            Self::OnCpu => "on_cpu",
        }
    }
}

/// What came into one bucket of a histogram within one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// End of the interval, `CLOCK_MONOTONIC` ns.
    pub time: u64,
    /// Which calls.
    pub probe: Probe,
    /// Their VM, where it is known.
    pub vm: Option<VmId>,
    /// Their vhost device, where it is known.
    pub device: Option<DeviceId>,
    /// What kind of calls.
    pub kind: CallKind,
    /// Nodes visited, 510 for 510 and more; `None` where there was no search, or it is not known.
    pub visited: Option<u32>,
    /// Which time.
    pub clock: HistogramClock,
    /// Smallest value of the bucket, ns.
    pub low: u64,
    /// Largest value of the bucket, ns.
    pub high: u64,
    /// How many values.
    pub count: u64,
    /// Their exact sum, ns.
    pub sum: u64,
}

impl Bucket {
    /// Does every call that it tells of count once, whatever the clock?
    #[must_use]
    pub fn counts_calls(&self) -> bool {
        self.clock != HistogramClock::OnCpu
    }
}

/// What was counted of a probe within one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountRow {
    /// End of the interval, `CLOCK_MONOTONIC` ns.
    pub time: u64,
    /// Which calls.
    pub probe: Probe,
    /// Their VM, where it is known.
    pub vm: Option<VmId>,
    /// Their vhost device, where it is known.
    pub device: Option<DeviceId>,
    /// What came since the interval before.
    pub account: Account,
    /// Calls in flight at the end of the interval.
    pub in_flight: u64,
}
