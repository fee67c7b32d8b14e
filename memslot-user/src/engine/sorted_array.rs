//! An array in ascending order, searched by halving: what KVM had from 3.20 to 5.16 (there in
//! descending order).
//!
//! As in `search_memslots` of those kernels the halving does not stop at a hit: its steps depend on
//! the number of ranges, not on where the address lies.

use super::{
    BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_disjoint, check_each,
};

/// Ranges in ascending order.
#[derive(Clone, Debug, Default)]
pub struct SortedArray {
    ranges: Vec<Range>,
}

impl SortedArray {
    /// How many ranges start at or below `addr`: they stand in front.
    #[inline]
    fn starting_up_to(&self, addr: u64, observer: &mut impl Observer) -> usize {
        let (mut low, mut high) = (0, self.ranges.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let range = &self.ranges[middle];
            observer.visit(range.key);
            if addr >= range.start {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
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
    fn search(&self, addr: u64, observer: &mut impl Observer) -> Option<Range> {
        // The halving stood at this range already when it moved `low` past it: no further node.
        let candidate = self.starting_up_to(addr, observer).checked_sub(1)?;
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
        let before = place.checked_sub(1).and_then(|before| self.ranges.get(before));
        let neighbours = [before, self.ranges.get(place)];
        if let Some(held) = neighbours.into_iter().flatten().find(|held| held.overlaps(&range)) {
            return Err(BuildError::Overlap(range, *held));
        }
        self.ranges.insert(place, range);
        Ok(())
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        let place = self.starting_up_to(start, &mut ()).checked_sub(1)?;
        (self.ranges[place].start == start).then(|| self.ranges.remove(place))
    }
}
