//! Kinds of calls whose latency is told apart.

use crate::model::{CallKind, Class, Fault, PleExit, Probe, Translation};

/// A kind of call, by what the kernel had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// RAM fault, answered by the vCPU's last-used slot.
    LastUsed,
    /// RAM fault, after a search.
    Searched,
    /// RAM fault whose search could not be followed.
    Unfollowed,
    /// The search found no slot: MMIO or a gap.
    NoSlot,
    /// MMIO that is cached in the page table: emulated without a search.
    MmioCached,
    /// Shadow or nested paging.
    Shadow,
    /// Fault whose search was not to be followed.
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

impl Group {
    /// That of a fault.
    #[must_use]
    pub fn of_fault(fault: &Fault) -> Self {
        match (fault.class, fault.length) {
            (Class::Ram, Some(length)) if length.visited == 0 => Self::LastUsed,
            (Class::Ram, Some(_)) => Self::Searched,
            (Class::Ram, None) => Self::Unfollowed,
            (Class::NoSlot, _) => Self::NoSlot,
            (Class::MmioCached, _) => Self::MmioCached,
            (Class::Shadow, _) => Self::Shadow,
        }
    }

    /// That of a PLE exit: its best outcome.
    #[must_use]
    pub fn of_ple_exit(exit: &PleExit) -> Self {
        if exit.boosted > 0 {
            Self::Boosted
        } else if exit.declined > 0 {
            Self::Declined
        } else if exit.undercommit > 0 {
            Self::Undercommit
        } else {
            Self::NoYield
        }
    }

    /// That of a translation.
    #[must_use]
    pub fn of_translation(translation: &Translation) -> Self {
        if translation.ret < 0 {
            Self::Failed
        } else if translation.is_iotlb {
            Self::Iotlb
        } else {
            Self::MemoryTable
        }
    }

    /// That of the calls in a histogram.
    #[must_use]
    pub fn of_histogram(kind: CallKind, visited: Option<u32>) -> Self {
        match kind {
            CallKind::Ram if visited == Some(0) => Self::LastUsed,
            CallKind::Ram if visited.is_none() => Self::Unfollowed,
            CallKind::Ram => Self::Searched,
            CallKind::NoSlot => Self::NoSlot,
            CallKind::MmioCached => Self::MmioCached,
            CallKind::Shadow => Self::Shadow,
            CallKind::NotFollowed => Self::NotFollowed,
            CallKind::Boosted => Self::Boosted,
            CallKind::Declined => Self::Declined,
            CallKind::Undercommit => Self::Undercommit,
            CallKind::NoYield => Self::NoYield,
            CallKind::MemoryTable => Self::MemoryTable,
            CallKind::Iotlb => Self::Iotlb,
            CallKind::Failed => Self::Failed,
        }
    }

    /// The probe whose calls it tells apart.
    #[must_use]
    pub fn probe(self) -> Probe {
        match self {
            Self::LastUsed
            | Self::Searched
            | Self::Unfollowed
            | Self::NoSlot
            | Self::MmioCached
            | Self::Shadow
            | Self::NotFollowed => Probe::PageFault,
            Self::Boosted | Self::Declined | Self::Undercommit | Self::NoYield => Probe::Ple,
            Self::MemoryTable | Self::Iotlb | Self::Failed => Probe::Translate,
        }
    }

    /// The name in charts and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LastUsed => "RAM, by the last-used slot",
            Self::Searched => "RAM, after a search",
            Self::Unfollowed => "RAM, search not followed",
            Self::NoSlot => "No slot (MMIO or gap)",
            Self::MmioCached => "MMIO, cached: no search",
            Self::Shadow => "Shadow or nested paging",
            Self::NotFollowed => "Search left out",
            Self::Boosted => "Boosted another vCPU",
            Self::Declined => "Yield declined",
            Self::Undercommit => "Undercommitted",
            Self::NoYield => "No yield tried",
            Self::MemoryTable => "Memory table",
            Self::Iotlb => "Device IOTLB",
            Self::Failed => "Failed",
        }
    }

    /// The name in JSON.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::LastUsed => "ram_last_used",
            Self::Searched => "ram_searched",
            Self::Unfollowed => "ram_unfollowed",
            Self::NoSlot => "no_slot",
            Self::MmioCached => "mmio_cached",
            Self::Shadow => "shadow",
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
}
