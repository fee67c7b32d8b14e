//! The data structures that look an address up: what the kernel has, had, or could have.
//!
//! All of them hold [`Range`]s, which stand for memory slots (in gfn) as well as for vhost regions
//! (in bytes), and answer what [`Linear`] answers. None of them contains `unsafe`.

mod btreemap;
mod eytzinger;
mod id;
mod interval_tree;
mod last_used;
mod linear;
mod node;
mod nodes;
mod observe;
mod rb;
mod rbtree;
mod shape;
mod sorted_array;
mod sorted_array_kernel;
mod wbtree;

pub use btreemap::BTreeMapEngine;
pub use eytzinger::Eytzinger;
pub use id::EngineId;
pub use interval_tree::IntervalTree;
pub use last_used::{LastUsed, search_with_last_used};
pub use linear::{Linear, LinearBySize};
pub use observe::{LINE, Observer};
pub use rb::SnapshotNode;
pub use rbtree::RbTree;
pub use shape::{ShapeError, ShapeNode, TreeShape};
pub use sorted_array::SortedArray;
pub use sorted_array_kernel::SortedArrayKernel;
pub use wbtree::WbTree;

use crate::model::{Memslot, Region, SearchLength};
use observe::{Counted, Lines, next_line};

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
    /// Distinct cache lines of the engine's memory that were read, if each of its arrays begins one.
    pub lines: u32,
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
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range>;

    /// Key of the range that holds `addr`.
    #[inline]
    fn find(&self, addr: u64) -> Option<u32> {
        self.search(addr, &mut ()).map(|range| range.key)
    }

    /// The same, with the steps that it takes.
    fn find_counted(&self, addr: u64) -> Search {
        let mut counted = Counted::default();
        let found = self.search(addr, &mut counted).map(|range| range.key);
        Search { found, length: counted.length, lines: counted.lines.count() }
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

/// Puts a range into its place in an array that is sorted either way, unless it overlaps a neighbour.
fn insert_at(ranges: &mut Vec<Range>, place: usize, range: Range) -> Result<(), BuildError> {
    let before = place.checked_sub(1).and_then(|before| ranges.get(before));
    let neighbours = [before, ranges.get(place)];
    if let Some(held) = neighbours.into_iter().flatten().find(|held| held.overlaps(&range)) {
        return Err(BuildError::Overlap(range, *held));
    }
    ranges.insert(place, range);
    Ok(())
}

#[cfg(test)]
mod tests;
