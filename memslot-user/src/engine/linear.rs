//! Arrays searched from the front: by registration (the oracle), and with the largest range first,
//! as KVM had it up to 2011 and then until 3.20.

use super::{
    BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_disjoint, check_each,
};

/// In the order in which the ranges came. Simple enough to be right: every other engine is checked
/// against it.
#[derive(Clone, Debug, Default)]
pub struct Linear {
    ranges: Vec<Range>,
}

/// The largest range first; of equal ones the one that came first.
#[derive(Clone, Debug, Default)]
pub struct LinearBySize {
    ranges: Vec<Range>,
}

/// Both search alike.
#[inline(always)]
fn scan(ranges: &[Range], addr: u64, observer: &mut impl Observer) -> Option<Range> {
    ranges
        .iter()
        .enumerate()
        .find(|(place, range)| {
            observer.visit(range.key);
            observer.read(place * size_of::<Range>(), size_of::<Range>());
            range.contains(addr)
        })
        .map(|(_, range)| *range)
}

fn refuse_overlap(ranges: &[Range], range: &Range) -> Result<(), BuildError> {
    check_each(std::slice::from_ref(range))?;
    match ranges.iter().find(|held| held.overlaps(range)) {
        Some(held) => Err(BuildError::Overlap(*range, *held)),
        None => Ok(()),
    }
}

fn take(ranges: &mut Vec<Range>, start: u64) -> Option<Range> {
    let place = ranges.iter().position(|range| range.start == start)?;
    Some(ranges.remove(place))
}

fn validate(engine: EngineId, ranges: &[Range]) -> Result<(), InvariantError> {
    check_disjoint(ranges).map_err(|error| InvariantError { engine: engine.name(), rule: error.to_string() })
}

impl Engine for Linear {
    const ID: EngineId = EngineId::Linear;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_disjoint(ranges)?;
        Ok(Self { ranges: ranges.to_vec() })
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        scan(&self.ranges, addr, observer)
    }

    fn validate(&self) -> Result<(), InvariantError> {
        validate(Self::ID, &self.ranges)
    }

    fn len(&self) -> usize {
        self.ranges.len()
    }

    fn footprint(&self) -> usize {
        self.ranges.capacity() * size_of::<Range>()
    }
}

impl DynamicEngine for Linear {
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        refuse_overlap(&self.ranges, &range)?;
        self.ranges.push(range);
        Ok(())
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        take(&mut self.ranges, start)
    }
}

impl Engine for LinearBySize {
    const ID: EngineId = EngineId::LinearBySize;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_disjoint(ranges)?;
        let mut ranges = ranges.to_vec();
        ranges.sort_by_key(|range| std::cmp::Reverse(range.weight()));
        Ok(Self { ranges })
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        scan(&self.ranges, addr, observer)
    }

    fn validate(&self) -> Result<(), InvariantError> {
        if let Some(pair) = self.ranges.windows(2).find(|pair| pair[0].weight() < pair[1].weight()) {
            let rule = format!("{:?} stands before the larger {:?}", pair[0], pair[1]);
            return Err(InvariantError { engine: Self::ID.name(), rule });
        }
        validate(Self::ID, &self.ranges)
    }

    fn len(&self) -> usize {
        self.ranges.len()
    }

    fn footprint(&self) -> usize {
        self.ranges.capacity() * size_of::<Range>()
    }
}

impl DynamicEngine for LinearBySize {
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        refuse_overlap(&self.ranges, &range)?;
        let place = self.ranges.partition_point(|held| held.weight() >= range.weight());
        self.ranges.insert(place, range);
        Ok(())
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        take(&mut self.ranges, start)
    }
}
