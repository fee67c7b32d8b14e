//! The engines as a replay builds them: one by one, over the same ranges.

use crate::engine::{
    BTreeMapEngine, BuildError, Engine, EngineId, Eytzinger, IntervalTree, Linear, LinearBySize, Observer,
    Range, RbTree, SortedArray, SortedArrayKernel, WbTree,
};
use crate::model::Probe;

/// An address to look up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    /// A gfn, or an address to translate.
    pub(super) addr: u64,
    /// The end of the search as vhost passes it, inclusive; `addr` for slots.
    pub(super) last: u64,
    /// The event that made it, by its number in the chunk.
    pub(super) event: u32,
    /// Which of the [`classes`] of its probe's look-ups.
    pub(super) class: u8,
}

/// Look-ups that are told apart: those that found a range and those that found none, and for
/// translations by the table that was searched.
pub(super) fn classes(probe: Probe) -> &'static [&'static str] {
    match probe {
        Probe::Translate => &["memory_table_hit", "memory_table_failed", "iotlb_hit", "iotlb_failed"],
        _ => &["hit", "miss"],
    }
}

/// The class of a look-up that found a range or none, in the device IOTLB or not.
pub(super) fn class(found: bool, is_iotlb: bool) -> u8 {
    u8::from(!found) + 2 * u8::from(is_iotlb)
}

/// The kernel's own tree at that time.
#[derive(Clone, Copy, Debug)]
pub(super) enum KernelTree<'a> {
    /// Of slots.
    Slots(&'a RbTree),
    /// Of regions.
    Regions(&'a IntervalTree),
}

/// The engines that a probe's look-ups are run through unless others are asked for: what the probe's
/// kernel has, had, or could have.
#[must_use]
pub fn usual(probe: Probe) -> Vec<EngineId> {
    let kernel = if probe == Probe::Translate { EngineId::IntervalTree } else { EngineId::Rbtree };
    vec![EngineId::Linear, EngineId::LinearBySize, EngineId::SortedArray, EngineId::Wbtree, kernel]
}

/// Answers a look-up.
pub(super) trait Answer {
    /// Key of the range that holds the address.
    fn answer(&self, lookup: &Lookup, observer: &mut impl Observer) -> Option<u32>;
}

macro_rules! answer_by_address {
    ($($engine:ty),*) => { $(
        impl Answer for $engine {
            #[inline(always)]
            fn answer(&self, lookup: &Lookup, observer: &mut impl Observer) -> Option<u32> {
                self.search(lookup.addr, observer).map(|range| range.key)
            }
        }
    )* };
}
answer_by_address!(
    Linear,
    LinearBySize,
    SortedArray,
    SortedArrayKernel,
    WbTree,
    RbTree,
    BTreeMapEngine,
    Eytzinger
);

impl Answer for IntervalTree {
    /// As `translate_desc` asks: the first region that overlaps what is left, if it holds the address.
    #[inline(always)]
    fn answer(&self, lookup: &Lookup, observer: &mut impl Observer) -> Option<u32> {
        let range = self.first(lookup.addr, lookup.last, observer)?;
        (range.start <= lookup.addr).then_some(range.key)
    }
}

/// An engine that was built.
#[derive(Clone, Debug)]
pub(super) enum Built {
    Linear(Linear),
    LinearBySize(LinearBySize),
    SortedArray(SortedArray),
    SortedArrayKernel(SortedArrayKernel),
    Wbtree(WbTree),
    Rbtree(RbTree),
    IntervalTree(IntervalTree),
    Btreemap(BTreeMapEngine),
    Eytzinger(Eytzinger),
}

/// Runs an expression with the engine itself, so that it is compiled for each.
macro_rules! with_engine {
    ($built:expr, $engine:ident => $run:expr) => {
        match $built {
            Built::Linear($engine) => $run,
            Built::LinearBySize($engine) => $run,
            Built::SortedArray($engine) => $run,
            Built::SortedArrayKernel($engine) => $run,
            Built::Wbtree($engine) => $run,
            Built::Rbtree($engine) => $run,
            Built::IntervalTree($engine) => $run,
            Built::Btreemap($engine) => $run,
            Built::Eytzinger($engine) => $run,
        }
    };
}
pub(super) use with_engine;

impl Built {
    /// Builds an engine over `ranges`; the kernel's own kind of tree is taken over, shape and all.
    pub(super) fn new(id: EngineId, ranges: &[Range], kernel: KernelTree<'_>) -> Result<Self, BuildError> {
        Ok(match (id, kernel) {
            (EngineId::Linear, _) => Self::Linear(Linear::build(ranges)?),
            (EngineId::LinearBySize, _) => Self::LinearBySize(LinearBySize::build(ranges)?),
            (EngineId::SortedArray, _) => Self::SortedArray(SortedArray::build(ranges)?),
            (EngineId::SortedArrayKernel, _) => Self::SortedArrayKernel(SortedArrayKernel::build(ranges)?),
            (EngineId::Btreemap, _) => Self::Btreemap(BTreeMapEngine::build(ranges)?),
            (EngineId::Eytzinger, _) => Self::Eytzinger(Eytzinger::build(ranges)?),
            (EngineId::Wbtree, _) => Self::Wbtree(WbTree::build(ranges)?),
            (EngineId::Rbtree, KernelTree::Slots(tree)) => Self::Rbtree(tree.clone()),
            (EngineId::Rbtree, KernelTree::Regions(_)) => Self::Rbtree(RbTree::build(ranges)?),
            (EngineId::IntervalTree, KernelTree::Regions(tree)) => Self::IntervalTree(tree.clone()),
            (EngineId::IntervalTree, KernelTree::Slots(_)) => {
                Self::IntervalTree(IntervalTree::build(ranges)?)
            }
        })
    }
}
