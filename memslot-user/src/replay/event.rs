//! An event that was joined with its layout, and what is kept of it.

use crate::engine::EngineId;
use crate::model::SearchLength;

/// Events alike enough that their latencies differ by the search and by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Basis {
    /// Faults on a slot after which the guest resumed.
    Ram,
    /// Faults on no slot.
    NoSlot,
    /// Translations into one segment.
    OneSegment,
    /// Anything else: no fit is made of it.
    Other,
}

impl Basis {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Ram => "faults on a slot after which the guest resumed",
            Self::NoSlot => "faults on no slot",
            Self::OneSegment => "translations into one segment",
            Self::Other => "other events",
        }
    }
}

/// An event that was joined with its layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) latency: u64,
    /// As recorded.
    pub(super) observed: Option<SearchLength>,
    /// As the model of the kernel's search has it.
    pub(super) modelled: SearchLength,
    pub(super) basis: Basis,
}

impl Event {
    /// Nodes that the kernel's search stood at.
    pub(super) fn visited(&self) -> u32 {
        self.observed.unwrap_or(self.modelled).visited
    }
}

/// What the fit and the predictions need of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) latency: u64,
    /// Nodes that the kernel's search stood at.
    pub(super) visited: u32,
    pub(super) basis: Basis,
    /// Nodes that each engine visits, in the order of the engines.
    pub(super) by_engine: [u32; EngineId::ALL.len()],
}
