//! The data structures that look an address up: what the kernel has, had, or could have.
//!
//! All of them hold [`Range`]s, which stand for memory slots (in gfn) as well as for vhost regions
//! (in bytes), and answer what [`Linear`] answers. None of them contains `unsafe`.

mod interval_tree;
mod last_used;
mod linear;
mod rb;
mod rbtree;
mod sorted_array;
mod wbtree;

pub use interval_tree::IntervalTree;
pub use last_used::{LastUsed, search_with_last_used};
pub use linear::{Linear, LinearBySize};
pub use rb::SnapshotNode;
pub use rbtree::RbTree;
pub use sorted_array::SortedArray;
pub use wbtree::WbTree;

use crate::model::{Memslot, Region, SearchLength};
use serde::{Deserialize, Serialize};

/// A range of addresses: a memory slot's frames, or a region's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Last address, inclusive; not below `start`.
    pub last: u64,
    /// What a look-up answers with; unique within an engine.
    pub key: u32,
}

impl Range {
    /// The frames of a slot; `None` if it has none or runs past the last frame.
    #[must_use]
    pub fn of_slot(slot: &Memslot, key: u32) -> Option<Self> {
        let last = slot.base_gfn.0.checked_add(slot.npages.checked_sub(1)?)?;
        Some(Self { start: slot.base_gfn.0, last, key })
    }

    /// The bytes of a region; `None` if it ends before it starts.
    #[must_use]
    pub fn of_region(region: &Region, key: u32) -> Option<Self> {
        (region.start <= region.last).then_some(Self { start: region.start, last: region.last, key })
    }

    /// Does it hold the address?
    #[must_use]
    pub fn contains(&self, addr: u64) -> bool {
        self.start <= addr && addr <= self.last
    }

    /// Do the two share an address?
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    /// Addresses it holds, less one, so that the whole of 64 bits has a weight too.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.last - self.start
    }
}

/// What a look-up found, and its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Key of the range that holds the address.
    pub found: Option<u32>,
    /// Steps.
    pub length: SearchLength,
}

/// Told of every node that a search reads. `()` hears nothing and costs nothing.
pub trait Observer {
    /// The search stands at the node of this key.
    fn visit(&mut self, key: u32);
    /// It reads a node that it does not, and will not, stand at; told once a node.
    fn touch(&mut self, key: u32);
}

impl Observer for () {
    #[inline(always)]
    fn visit(&mut self, _key: u32) {}
    #[inline(always)]
    fn touch(&mut self, _key: u32) {}
}

impl Observer for SearchLength {
    #[inline]
    fn visit(&mut self, _key: u32) {
        self.visited += 1;
        self.touched += 1;
    }
    #[inline]
    fn touch(&mut self, _key: u32) {
        self.touched += 1;
    }
}

/// A data structure that looks addresses up.
pub trait Engine: Sized {
    /// Its name.
    const ID: EngineId;

    /// Holds `ranges`, which came in this order.
    ///
    /// # Errors
    /// A range ends before it starts, or two overlap where the kernel refuses that.
    fn build(ranges: &[Range]) -> Result<Self, BuildError>;

    /// The range that holds `addr`; tells `observer` the way to it.
    fn search(&self, addr: u64, observer: &mut impl Observer) -> Option<Range>;

    /// Key of the range that holds `addr`.
    #[inline]
    fn find(&self, addr: u64) -> Option<u32> {
        self.search(addr, &mut ()).map(|range| range.key)
    }

    /// The same, with the steps that it takes.
    fn find_counted(&self, addr: u64) -> Search {
        let mut length = SearchLength::default();
        let found = self.search(addr, &mut length).map(|range| range.key);
        Search { found, length }
    }

    /// Checks every rule that the structure lives by.
    ///
    /// # Errors
    /// The rule that is broken, and where.
    fn validate(&self) -> Result<(), InvariantError>;

    /// Ranges held.
    fn len(&self) -> usize;

    /// Does it hold none?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory that its ranges take, spare capacity included.
    fn footprint(&self) -> usize;
}

/// An engine whose ranges come and go.
pub trait DynamicEngine: Engine {
    /// Adds a range.
    ///
    /// # Errors
    /// As [`Engine::build`]; nothing has changed then.
    fn insert(&mut self, range: Range) -> Result<(), BuildError>;

    /// Removes and returns the range that starts at `start`.
    fn remove(&mut self, start: u64) -> Option<Range>;
}

/// Why ranges cannot be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Two share addresses (`KVM_SET_USER_MEMORY_REGION` answers `-EEXIST`).
    #[error("the range {:#x}..={:#x} overlaps {:#x}..={:#x}", .0.start, .0.last, .1.start, .1.last)]
    Overlap(Range, Range),
    /// One ends before it starts.
    #[error("the range {:#x}..={:#x} ends before it starts", .0.start, .0.last)]
    Backwards(Range),
    /// More than an index can number.
    #[error("more than {} ranges", u32::MAX - 1)]
    TooMany,
}

/// A rule that a structure broke: a defect of the engine, or of the snapshot that it was made from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{engine}: {rule}")]
pub struct InvariantError {
    /// Which structure.
    pub engine: &'static str,
    /// Which rule, and where.
    pub rule: String,
}

/// The engines by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineId {
    /// [`Linear`]
    Linear,
    /// [`LinearBySize`]
    LinearBySize,
    /// [`SortedArray`]
    SortedArray,
    /// [`WbTree`]
    Wbtree,
    /// [`RbTree`]
    Rbtree,
    /// [`IntervalTree`]
    IntervalTree,
}

impl EngineId {
    /// All of them, in the order of every table.
    pub const ALL: [Self; 6] =
        [Self::Linear, Self::LinearBySize, Self::SortedArray, Self::Wbtree, Self::Rbtree, Self::IntervalTree];

    /// The name in JSON, tables and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::LinearBySize => "linear_by_size",
            Self::SortedArray => "sorted_array",
            Self::Wbtree => "wbtree",
            Self::Rbtree => "rbtree",
            Self::IntervalTree => "interval_tree",
        }
    }
}

impl std::str::FromStr for EngineId {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|id| id.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no engine {name}; choose from {names}")
        })
    }
}

/// Refuses ranges that are backwards or overlap, as `kvm_check_memslot_overlap` does.
fn check_disjoint(ranges: &[Range]) -> Result<(), BuildError> {
    check_each(ranges)?;
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| range.start);
    match sorted.windows(2).find(|pair| pair[0].last >= pair[1].start) {
        Some(pair) => Err(BuildError::Overlap(pair[1], pair[0])),
        None => Ok(()),
    }
}

/// Refuses ranges that are backwards.
fn check_each(ranges: &[Range]) -> Result<(), BuildError> {
    if ranges.len() >= u32::MAX as usize {
        return Err(BuildError::TooMany);
    }
    match ranges.iter().find(|range| range.start > range.last) {
        Some(range) => Err(BuildError::Backwards(*range)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
