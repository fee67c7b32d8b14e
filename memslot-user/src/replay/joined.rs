//! The joined calls of a recording and the ways of the engines' searches, for who models costs.

use super::clock::groups;
use super::engines::{Built, KernelTree, with_engine};
use super::event::{Basis, Event};
use super::fold::Group;
use super::run::{Error, LastUsed, Options};
use crate::engine::{BuildError, Engine, EngineId, Observer, Range, RbTree};
use crate::model::Probe;
use crate::recording::Recording;
use std::collections::BTreeMap;

/// Calls that met the same layout, and the look-ups that they made past the last-used slot.
pub(crate) struct Calls<'a> {
    events: &'a [Event],
    group: &'a Group<'a>,
}

/// A look-up of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLookup {
    /// Place of its call among [`Calls::calls`].
    pub(crate) call: usize,
    /// The frame or address.
    pub(crate) addr: u64,
    /// It found a range.
    pub(crate) found: bool,
}

/// A call of the probed function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// As recorded, ns.
    pub(crate) latency: u64,
    /// A fault on a slot, or a translation into one segment, that ended well.
    pub(crate) plain: bool,
    /// A fault on no slot.
    pub(crate) no_slot: bool,
}

impl Calls<'_> {
    pub(crate) fn calls(&self) -> impl Iterator<Item = Call> + '_ {
        self.events.iter().map(|event| Call {
            latency: event.latency,
            plain: matches!(event.basis, Basis::Ram | Basis::OneSegment),
            no_slot: event.basis == Basis::NoSlot,
        })
    }

    pub(crate) fn lookups(&self) -> impl Iterator<Item = CallLookup> + '_ {
        self.group.lookups.iter().map(|lookup| CallLookup {
            call: lookup.event as usize,
            addr: lookup.addr,
            found: lookup.class % 2 == 0,
        })
    }

    /// The engine over this layout; the kernel's own tree in the very shape that it had.
    pub(crate) fn walker(&self, id: EngineId) -> Result<Walker, BuildError> {
        Ok(Walker::of(Built::new(id, self.group.ranges, self.group.kernel)?, self.group.ranges))
    }
}

/// Hands the calls of a recording to `visit`, layout by layout.
pub(crate) fn each(
    recording: &Recording,
    probe: Probe,
    last_used: LastUsed,
    visit: &mut dyn FnMut(&Calls<'_>),
) -> Result<(), Error> {
    let options = Options { last_used, ..Options::default() };
    groups(recording, probe, &options, &|_| {}, &mut |events, group| visit(&Calls { events, group }))
}

/// Where a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum End {
    /// At a range that holds the address.
    Found,
    /// In vain, with ranges on both sides.
    Between,
    /// In vain, below all ranges.
    Below,
    /// In vain, above all ranges.
    Above,
}

/// The way of a search: what its instructions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Path {
    /// Nodes visited that begin above the address.
    pub(crate) above: u32,
    /// Nodes visited that begin at the address or below it.
    pub(crate) below: u32,
    /// Children that were read and not gone to (interval tree).
    pub(crate) rejected: u32,
    /// Halvings of all ranges until one is left, or levels of a heap of them.
    pub(crate) halvings: u32,
    /// Where it ended.
    pub(crate) end: End,
}

impl Path {
    /// Nodes that it stood at.
    pub(crate) fn visited(&self) -> u32 {
        self.above + self.below
    }
}

/// An engine whose searches are followed.
pub(crate) struct Walker {
    built: Built,
    starts: BTreeMap<u32, u64>,
    lowest: Option<Range>,
    /// The node through which a search goes to the lowest range.
    before_lowest: Option<u32>,
    highest: u64,
    halvings: u32,
}

impl Walker {
    /// Over ranges in the order of their registration.
    pub(crate) fn new(id: EngineId, ranges: &[Range]) -> Result<Self, BuildError> {
        let tree = RbTree::build(ranges)?;
        Ok(Self::of(Built::new(id, ranges, KernelTree::Slots(&tree))?, ranges))
    }

    fn of(built: Built, ranges: &[Range]) -> Self {
        let lowest = ranges.iter().min_by_key(|range| range.start).copied();
        let mut way = Way(Vec::new());
        if let Some(lowest) = lowest {
            with_engine!(&built, engine => engine.search(lowest.start, &mut way));
        }
        Self {
            built,
            before_lowest: way.0.len().checked_sub(2).map(|place| way.0[place]),
            starts: ranges.iter().map(|range| (range.key, range.start)).collect(),
            lowest,
            highest: ranges.iter().map(|range| range.last).max().unwrap_or(0),
            halvings: ranges.len().max(1).next_power_of_two().ilog2(),
        }
    }

    pub(crate) fn path(&self, addr: u64) -> Path {
        let mut follower = Follower { walker: self, addr, at: None, above: 0, below: 0, rejected: 0 };
        let found = with_engine!(&self.built, engine => engine.search(addr, &mut follower));
        let Follower { above, below, rejected, .. } = follower;
        let end = match (found, self.lowest) {
            (Some(_), _) => End::Found,
            (None, Some(lowest)) if addr < lowest.start => End::Below,
            (None, _) if addr > self.highest => End::Above,
            (None, _) => End::Between,
        };
        Path { above, below, rejected, halvings: self.halvings, end }
    }
}

/// The nodes visited, in their order.
struct Way(Vec<u32>);

impl Observer for Way {
    fn visit(&mut self, key: u32) {
        self.0.push(key);
    }

    fn touch(&mut self, _key: u32) {}
}

struct Follower<'a> {
    walker: &'a Walker,
    addr: u64,
    /// The node visited last.
    at: Option<u32>,
    above: u32,
    below: u32,
    rejected: u32,
}

impl Observer for Follower<'_> {
    fn visit(&mut self, key: u32) {
        self.at = Some(key);
        if self.walker.starts.get(&key).is_some_and(|start| *start > self.addr) {
            self.above += 1;
        } else {
            self.below += 1;
        }
    }

    fn touch(&mut self, key: u32) {
        // The leftmost is read before the way down begins, whatever the address; that is told where the way did not
        // meet it, which is not so at its parent.
        let leftmost = self.walker.lowest.is_some_and(|lowest| lowest.key == key);
        if !leftmost || (self.at.is_some() && self.at == self.walker.before_lowest) {
            self.rejected += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(count: u32) -> Vec<Range> {
        (0..count)
            .map(|key| Range { start: u64::from(key) * 20 + 100, last: u64::from(key) * 20 + 109, key })
            .collect()
    }

    #[test]
    fn a_list_is_passed_from_the_front_and_the_end_is_told() {
        let walker = Walker::new(EngineId::Linear, &ranges(5)).unwrap();
        let path = walker.path(145);
        assert_eq!((path.above, path.below, path.end), (0, 3, End::Found));
        let path = walker.path(150);
        assert_eq!((path.above, path.below, path.end), (2, 3, End::Between));
        assert_eq!((walker.path(99).end, walker.path(99).above), (End::Below, 5));
        assert_eq!((walker.path(190).end, walker.path(190).halvings), (End::Above, 3));
    }

    #[test]
    fn a_rejected_child_of_the_interval_tree_counts_and_the_leftmost_does_not() {
        let walker = Walker::new(EngineId::IntervalTree, &ranges(3)).unwrap();
        // The root holds it; its left child, which is the leftmost, was looked at.
        assert_eq!((walker.path(125).below, walker.path(125).rejected), (1, 1));
        assert_eq!((walker.path(145).below, walker.path(145).rejected), (2, 1));
        let walker = Walker::new(EngineId::IntervalTree, &ranges(7)).unwrap();
        // Along the right edge each left child is looked at; at the leaf there is none.
        let path = walker.path(225);
        assert_eq!((path.below, path.above, path.end), (path.visited(), 0, End::Found));
        assert!(path.rejected > 0);
    }
}
