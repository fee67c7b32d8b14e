//! The standard library's B-tree: what one would use without a second thought.

use super::{
    BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_disjoint, check_each,
};
use std::borrow::Borrow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A start, and the key of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Start(u64);

/// Ranges by start.
#[derive(Clone, Debug, Default)]
pub struct BTreeMapEngine {
    ranges: BTreeMap<Start, Range>,
}

/// Something that starts are compared with; the map asks it at every key that it reads.
trait Compared {
    fn addr(&self) -> u64;
    /// Told of the other side of a comparison.
    fn hear(&self, _other: &dyn Compared) {}
    /// Where it lies in memory.
    fn place(&self) -> usize;
}

impl Compared for Start {
    fn addr(&self) -> u64 {
        self.0
    }
    fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// An address that notes what it is compared with.
struct Asked {
    addr: u64,
    seen: RefCell<Vec<(u64, usize)>>,
}

impl Compared for Asked {
    fn addr(&self) -> u64 {
        self.addr
    }
    fn hear(&self, other: &dyn Compared) {
        self.seen.borrow_mut().push((other.addr(), other.place()));
    }
    fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl<'a> Borrow<dyn Compared + 'a> for Start {
    fn borrow(&self) -> &(dyn Compared + 'a) {
        self
    }
}

impl Ord for dyn Compared + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.hear(other);
        other.hear(self);
        self.addr().cmp(&other.addr())
    }
}

impl PartialOrd for dyn Compared + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Compared + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.addr() == other.addr()
    }
}

impl Eq for dyn Compared + '_ {}

impl BTreeMapEngine {
    /// The last range that starts at or below `addr`.
    #[inline]
    fn at_or_below(&self, addr: u64) -> Option<&Range> {
        self.ranges.range(..=Start(addr)).next_back().map(|(_, range)| range)
    }

    /// The same, told of every key that the map compares.
    #[inline(never)]
    fn heard(&self, addr: u64, observer: &mut impl Observer) -> Option<&Range> {
        let asked = Asked { addr, seen: RefCell::default() };
        let wanted: &dyn Compared = &asked;
        let bounds = (std::ops::Bound::Unbounded, std::ops::Bound::Included(wanted));
        let found = self.ranges.range::<dyn Compared + '_, _>(bounds).next_back().map(|(_, range)| range);
        for (start, place) in asked.seen.into_inner() {
            observer.read(place, size_of::<Start>());
            if let Some(range) = self.ranges.get(&Start(start)) {
                observer.visit(range.key);
            }
        }
        if let Some(range) = found {
            observer.read(std::ptr::from_ref(range).addr(), size_of::<Range>());
        }
        found
    }
}

impl Engine for BTreeMapEngine {
    const ID: EngineId = EngineId::Btreemap;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_disjoint(ranges)?;
        Ok(Self { ranges: ranges.iter().map(|range| (Start(range.start), *range)).collect() })
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        let candidate = if O::HEARS { self.heard(addr, observer) } else { self.at_or_below(addr) };
        candidate.filter(|range| addr <= range.last).copied()
    }

    fn validate(&self) -> Result<(), InvariantError> {
        let broken = |rule: String| Err(InvariantError { engine: Self::ID.name(), rule });
        if let Some((start, range)) = self.ranges.iter().find(|(start, range)| start.0 != range.start) {
            return broken(format!("{range:?} stands at {:#x}", start.0));
        }
        let mut pairs = self.ranges.values().zip(self.ranges.values().skip(1));
        match pairs.find(|(range, next)| range.last >= next.start) {
            Some((range, next)) => broken(format!("{range:?} does not end before {next:?}")),
            None => Ok(()),
        }
    }

    fn len(&self) -> usize {
        self.ranges.len()
    }

    /// At least: the standard library does not say how full its nodes are.
    fn footprint(&self) -> usize {
        self.ranges.len() * (size_of::<Start>() + size_of::<Range>())
    }
}

impl DynamicEngine for BTreeMapEngine {
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        check_each(&[range])?;
        // Of disjoint ranges the last that starts up to our end is the one that can overlap.
        if let Some(held) = self.at_or_below(range.last).filter(|held| held.overlaps(&range)) {
            return Err(BuildError::Overlap(range, *held));
        }
        self.ranges.insert(Start(range.start), range);
        Ok(())
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        self.ranges.remove(&Start(start))
    }
}
