//! An array in ascending order, searched by the standard library's `partition_point`, which halves
//! without branches: the processor never guesses wrong, and works at several look-ups at a time.
//!
//! The halving does not stop at a hit: its steps depend on the number of ranges, not on where the
//! address lies. How the kernel does it: [`SortedArrayKernel`](super::SortedArrayKernel).

use super::{
    BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_disjoint, check_each,
    insert_at,
};
use std::mem::offset_of;

/// Ranges in ascending order.
#[derive(Clone, Debug, Default)]
pub struct SortedArray {
    ranges: Vec<Range>,
}

impl SortedArray {
    /// How many ranges start at or below `addr`: they stand in front.
    #[inline]
    fn starting_up_to<O: Observer>(&self, addr: u64, observer: &mut O) -> usize {
        let array = self.ranges.as_ptr().addr();
        let mut accepted = None;
        self.ranges.partition_point(|range| {
            let below = range.start <= addr;
            if O::HEARS {
                // At the end the last one accepted is looked at again.
                if accepted != Some(range.key) {
                    observer.visit(range.key);
                    let place = std::ptr::from_ref(range).addr() - array;
                    observer.read(place + offset_of!(Range, start), size_of::<u64>());
                }
                if below {
                    accepted = Some(range.key);
                }
            }
            below
        })
    }
}

impl Engine for SortedArray {
    const ID: EngineId = EngineId::SortedArray;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_disjoint(ranges)?;
        let mut ranges = ranges.to_vec();
        ranges.sort_unstable_by_key(|range| range.start);
        Ok(Self { ranges })
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        // The halving stood at this range already when it accepted it: no further node.
        let candidate = self.starting_up_to(addr, observer).checked_sub(1)?;
        observer.read(candidate * size_of::<Range>(), size_of::<Range>());
        self.ranges.get(candidate).filter(|range| addr <= range.last).copied()
    }

    fn validate(&self) -> Result<(), InvariantError> {
        match self.ranges.windows(2).find(|pair| pair[0].last >= pair[1].start) {
            Some(pair) => {
                let rule = format!("{:?} does not end before {:?}", pair[0], pair[1]);
                Err(InvariantError { engine: Self::ID.name(), rule })
            }
            None => Ok(()),
        }
    }

    fn len(&self) -> usize {
        self.ranges.len()
    }

    fn footprint(&self) -> usize {
        self.ranges.capacity() * size_of::<Range>()
    }
}

impl DynamicEngine for SortedArray {
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        check_each(&[range])?;
        let place = self.starting_up_to(range.start, &mut ());
        insert_at(&mut self.ranges, place, range)
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        let place = self.starting_up_to(start, &mut ()).checked_sub(1)?;
        (self.ranges[place].start == start).then(|| self.ranges.remove(place))
    }
}
