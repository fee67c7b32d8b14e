//! Our own: the starts alone in Eytzinger order, as 32-bit keys.
//!
//! A search touches nothing but starts until it knows the one range that can hold the address. The
//! starts stand as in a heap (the root at 1, the children of `i` at `2i` and `2i + 1`), so that the
//! first four levels share a line and the way down is one comparison and one shift a level, without a
//! branch that depends on the data. A frame or region starts at a multiple of some power of two and
//! not far from the others: kept as `(start - first) >> shift` it fits 32 bits, which halves the
//! lines. Where it does not fit, 64-bit keys take their place. The lowest start is left out of the
//! keys: an address below it ends at range 0, which does not hold it. That saves a level wherever the
//! number of ranges is a power of two.
//!
//! It is built once and not changed: like the kernel's arrays up to 5.16, a changed layout is a new one.

use super::{BuildError, Engine, EngineId, InvariantError, Observer, Range, check_disjoint, next_line};

/// The starts of all ranges but the first, in Eytzinger order; place 0 is not used, and places that no
/// range needs hold the largest number.
#[derive(Clone, Debug)]
enum Keys {
    /// `(start - first) >> shift`
    Narrow(Vec<u32>),
    /// `start`
    Wide(Vec<u64>),
}

/// The ranges, and an index of their starts.
#[derive(Clone, Debug)]
pub struct Eytzinger {
    keys: Keys,
    first: u64,
    shift: u32,
    /// In ascending order.
    ranges: Vec<Range>,
}

/// The rank of the key at `at` in a full tree of `places` places: from 1, as range 0 has no key.
fn rank(at: usize, places: usize) -> usize {
    let level = at.ilog2();
    let below = places.ilog2() - level - 1;
    (2 * (at - (1 << level)) + 1) << below
}

/// How many keys are at most `wanted`. Where `wanted` is the largest number, the unused places count
/// too.
#[inline(always)]
fn descend<K: Ord + Copy, O: Observer>(keys: &[K], wanted: K, ranges: &[Range], observer: &mut O) -> usize {
    let mut at = 1;
    while at < keys.len() {
        if O::HEARS {
            observer.read(at * size_of::<K>(), size_of::<K>());
            if let Some(range) = ranges.get(rank(at, keys.len())) {
                observer.visit(range.key);
            }
        }
        at = 2 * at + usize::from(keys[at] <= wanted);
    }
    at - keys.len()
}

impl Eytzinger {
    /// The key of an address, which may lie anywhere. Below `first` it is meaningless, and no range
    /// holds such an address.
    #[inline(always)]
    fn narrow(addr: u64, first: u64, shift: u32) -> u32 {
        u32::try_from(addr.wrapping_sub(first) >> shift).unwrap_or(u32::MAX)
    }

    /// The keys stand in the first lines, the ranges in those after them.
    fn ranges_at(&self) -> usize {
        next_line(match &self.keys {
            Keys::Narrow(keys) => size_of_val(keys.as_slice()),
            Keys::Wide(keys) => size_of_val(keys.as_slice()),
        })
    }
}

impl Engine for Eytzinger {
    const ID: EngineId = EngineId::Eytzinger;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_disjoint(ranges)?;
        let mut ranges = ranges.to_vec();
        ranges.sort_unstable_by_key(|range| range.start);
        let first = ranges.first().map_or(0, |range| range.start);
        let ends = ranges.iter().fold(0, |bits, range| bits | (range.start - first));
        let shift = ends.trailing_zeros().min(u64::BITS - 1);
        let places = ranges.len().next_power_of_two();
        // A full tree: also the unused places after the last range's.
        let starts = (1..places).map(|at| ranges.get(rank(at, places)).map(|range| range.start));
        let fits = ranges.last().is_none_or(|last| u32::try_from((last.start - first) >> shift).is_ok());
        let keys = if fits {
            let key = |start: Option<u64>| start.map_or(u32::MAX, |start| Self::narrow(start, first, shift));
            Keys::Narrow(std::iter::once(0).chain(starts.map(key)).collect())
        } else {
            Keys::Wide(std::iter::once(0).chain(starts.map(|start| start.unwrap_or(u64::MAX))).collect())
        };
        Ok(Self { keys, first, shift, ranges })
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        let rank = match &self.keys {
            Keys::Narrow(keys) => {
                descend(keys, Self::narrow(addr, self.first, self.shift), &self.ranges, observer)
            }
            Keys::Wide(keys) => descend(keys, addr, &self.ranges, observer),
        };
        // Past the last range only the unused places count.
        let candidate = rank.min(self.ranges.len().saturating_sub(1));
        let range = self.ranges.get(candidate)?;
        observer.read(self.ranges_at() + candidate * size_of::<Range>(), size_of::<Range>());
        if candidate == 0 {
            // The others were met by their keys.
            observer.visit(range.key);
        }
        (addr.wrapping_sub(range.start) <= range.weight()).then_some(*range)
    }

    fn validate(&self) -> Result<(), InvariantError> {
        let broken = |rule: String| Err(InvariantError { engine: Self::ID.name(), rule });
        if let Some(pair) = self.ranges.windows(2).find(|pair| pair[0].last >= pair[1].start) {
            return broken(format!("{:?} does not end before {:?}", pair[0], pair[1]));
        }
        let places = self.ranges.len().next_power_of_two();
        let key = |at: usize| match &self.keys {
            Keys::Narrow(keys) => keys.get(at).map(|key| u64::from(*key)),
            Keys::Wide(keys) => keys.get(at).copied(),
        };
        let unused = if matches!(self.keys, Keys::Narrow(_)) { u64::from(u32::MAX) } else { u64::MAX };
        let wanted = |at: usize| match (self.ranges.get(rank(at, places)), &self.keys) {
            (None, _) => unused,
            (Some(range), Keys::Narrow(_)) => (range.start - self.first) >> self.shift,
            (Some(range), Keys::Wide(_)) => range.start,
        };
        match (1..places).find(|at| key(*at) != Some(wanted(*at))) {
            Some(at) => broken(format!("place {at} holds {:?}, not {:#x}", key(at), wanted(at))),
            None if key(places).is_some() => broken("there are more places than ranges need".to_owned()),
            None => Ok(()),
        }
    }

    fn len(&self) -> usize {
        self.ranges.len()
    }

    fn footprint(&self) -> usize {
        let keys = match &self.keys {
            Keys::Narrow(keys) => keys.capacity() * size_of::<u32>(),
            Keys::Wide(keys) => keys.capacity() * size_of::<u64>(),
        };
        keys + self.ranges.capacity() * size_of::<Range>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(starts: &[u64]) -> Vec<Range> {
        starts.iter().zip(0..).map(|(&start, key)| Range { start, last: start, key }).collect()
    }

    #[test]
    fn the_keys_stand_level_by_level() {
        let engine = Eytzinger::build(&ranges(&[100, 104, 108, 120, 136, 200])).unwrap();
        let Keys::Narrow(keys) = &engine.keys else { panic!("they fit 32 bits") };
        // Less 100, in fours: 1, 2, 5, 9, 25 and two places for none.
        assert_eq!(keys[1..], [9, 2, u32::MAX, 1, 5, 25, u32::MAX]);
        engine.validate().unwrap();
    }

    #[test]
    fn far_apart_starts_take_wide_keys_and_far_multiples_do_not() {
        let wide = Eytzinger::build(&ranges(&[0, 1, 1 << 32, u64::MAX])).unwrap();
        assert!(matches!(wide.keys, Keys::Wide(_)));
        assert_eq!(wide.find(u64::MAX), Some(3));
        assert_eq!(wide.find(u64::MAX - 1), None);
        let narrow = Eytzinger::build(&ranges(&[0, 1 << 40, 1 << 50])).unwrap();
        assert!(matches!(narrow.keys, Keys::Narrow(_)));
        assert_eq!((narrow.find(1 << 50), narrow.find((1 << 50) + 1)), (Some(2), None));
    }

    #[test]
    fn a_power_of_two_of_ranges_costs_no_level_more() {
        let levels = |count: u64| {
            let starts: Vec<u64> = (0..count).collect();
            let engine = Eytzinger::build(&ranges(&starts)).unwrap();
            starts.iter().skip(1).map(|start| engine.find_counted(*start).length.visited).max()
        };
        assert_eq!([2, 3, 4, 5, 32, 33, 32_764].map(levels), [1, 2, 2, 3, 5, 6, 15].map(Some));
    }
}
