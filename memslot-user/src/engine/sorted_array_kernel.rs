//! The kernel's own array: KVM's slots from 3.20 to 5.16, and vhost's regions in 2015.
//!
//! The slots stand in *descending* order, and the halving does not stop at a hit, as in
//! `search_memslots` of those kernels and `find_region` of vhost: the iterations depend on the number
//! of slots and a little on where the address lies, not on hit or miss. What is visited is what those
//! kernels iterate. Beside it, [`SortedArray`](super::SortedArray) is how one would write it today.

use super::{
    BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_disjoint, check_each,
    insert_at,
};
use std::cmp::Reverse;
use std::mem::offset_of;

/// Ranges in descending order.
#[derive(Clone, Debug, Default)]
pub struct SortedArrayKernel {
    ranges: Vec<Range>,
}

impl SortedArrayKernel {
    /// The place of the first range that starts at or below `addr`; past the end if none does.
    #[inline]
    fn place(&self, addr: u64, observer: &mut impl Observer) -> usize {
        let (mut low, mut high) = (0, self.ranges.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let range = &self.ranges[middle];
            observer.visit(range.key);
            observer.read(middle * size_of::<Range>() + offset_of!(Range, start), size_of::<u64>());
            if addr >= range.start {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

impl Engine for SortedArrayKernel {
    const ID: EngineId = EngineId::SortedArrayKernel;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_disjoint(ranges)?;
        let mut ranges = ranges.to_vec();
        ranges.sort_unstable_by_key(|range| Reverse(range.start));
        Ok(Self { ranges })
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        // The halving stood at this range already when it moved `high` to it: no further node.
        let place = self.place(addr, observer);
        let range = self.ranges.get(place)?;
        observer.read(place * size_of::<Range>(), size_of::<Range>());
        (addr <= range.last).then_some(*range)
    }

    fn validate(&self) -> Result<(), InvariantError> {
        match self.ranges.windows(2).find(|pair| pair[1].last >= pair[0].start) {
            Some(pair) => {
                let rule = format!("{:?} does not begin after {:?}", pair[0], pair[1]);
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

impl DynamicEngine for SortedArrayKernel {
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        check_each(&[range])?;
        let place = self.place(range.start, &mut ());
        insert_at(&mut self.ranges, place, range)
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        let place = self.place(start, &mut ());
        self.ranges.get(place).is_some_and(|range| range.start == start).then(|| self.ranges.remove(place))
    }
}
