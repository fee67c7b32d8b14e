//! The weight-balanced tree proposed for KVM's slots in 2011.
//!
//! A binary search tree on the start, heap-ordered on the size, so that the largest range is found
//! first; nodes live in a growable array. Its patch text is not to be found: what follows is our
//! reading. Insert as a leaf and rotate up while heavier than the parent; erase by rotating the
//! heavier child up until the node is a leaf. With distinct weights the shape is unique (a Cartesian
//! tree), whatever the order of operations.
//!
//! Tie-break, ours: of equal weights the older stays above on insertion; on erasure the left child
//! goes up. So equal ranges inserted in ascending order make a list: 256 equal DIMMs are 256 deep.

use super::nodes::{LEFT, NIL, Nodes, RIGHT};
use super::{
    BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_disjoint, check_each,
};

/// The tree.
#[derive(Clone, Debug, Default)]
pub struct WbTree {
    nodes: Nodes<()>,
}

impl WbTree {
    /// Nodes on the longest way from the root down.
    #[must_use]
    pub fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut open = vec![(self.nodes.root, 1)];
        while let Some((at, depth)) = open.pop() {
            if let Some(node) = self.nodes.get(at) {
                deepest = deepest.max(depth);
                open.extend(node.children.both().map(|child| (child, depth + 1)));
            }
        }
        deepest
    }

    /// The ranges in pre-order: with the search order this fixes the shape.
    #[must_use]
    pub fn pre_order(&self) -> Vec<Range> {
        self.nodes.pre_order().into_iter().filter_map(|at| self.nodes.range(at)).collect()
    }

    /// Rotates `at` into its parent's place.
    fn rotate_up(&mut self, at: u32) {
        let parent = self.nodes.parent(at);
        self.nodes.rotate(parent, 1 - self.nodes.side(parent, at));
    }

    /// Inserts a range that overlaps none.
    fn add(&mut self, range: Range) {
        let (mut parent, mut side, mut at) = (NIL, LEFT, self.nodes.root);
        while let Some(node) = self.nodes.get(at) {
            (parent, side) = (at, usize::from(range.start > node.start));
            at = node.children.both()[side];
        }
        let new = self.nodes.place(range);
        self.nodes.link(parent, side, new);
        while self.nodes.weight(self.nodes.parent(new)).is_some_and(|above| above < range.weight()) {
            self.rotate_up(new);
        }
    }

    fn broken(rule: String) -> InvariantError {
        InvariantError { engine: EngineId::Wbtree.name(), rule }
    }
}

impl Engine for WbTree {
    const ID: EngineId = EngineId::Wbtree;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_disjoint(ranges)?;
        let mut tree = Self::default();
        for range in ranges {
            tree.add(*range);
        }
        tree.nodes.order();
        Ok(tree)
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        self.nodes.search(addr, observer)
    }

    fn validate(&self) -> Result<(), InvariantError> {
        let (nodes, mut seen) = (&self.nodes, 0);
        // Each node with the bounds that its ancestors set: exclusive below, exclusive above.
        let mut open: Vec<(u32, u32, Option<u64>, Option<u64>)> = vec![(nodes.root, NIL, None, None)];
        while let Some((at, parent, low, high)) = open.pop() {
            let Some(range) = nodes.range(at) else { continue };
            seen += 1;
            if seen > nodes.len() {
                return Err(Self::broken("a node hangs in two places".to_owned()));
            }
            if nodes.parent(at) != parent {
                return Err(Self::broken(format!("{range:?} does not know its parent")));
            }
            if low.is_some_and(|low| range.start <= low) || high.is_some_and(|high| range.last >= high) {
                return Err(Self::broken(format!("{range:?} stands on the wrong side of an ancestor")));
            }
            if nodes.weight(parent).is_some_and(|above| above < range.weight()) {
                return Err(Self::broken(format!("{range:?} is heavier than its parent")));
            }
            open.push((nodes.child(at, LEFT), at, low, Some(range.start)));
            open.push((nodes.child(at, RIGHT), at, Some(range.last), high));
        }
        if seen == nodes.len() { Ok(()) } else { Err(Self::broken("a node hangs nowhere".to_owned())) }
    }

    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn footprint(&self) -> usize {
        self.nodes.footprint()
    }
}

impl DynamicEngine for WbTree {
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        check_each(&[range])?;
        match self.nodes.overlapping(&range) {
            Some(held) => Err(BuildError::Overlap(range, held)),
            None if self.nodes.is_full() => Err(BuildError::TooMany),
            None => {
                self.add(range);
                self.nodes.settle();
                Ok(())
            }
        }
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        let at = self.nodes.at_start(start)?;
        let range = self.nodes.range(at);
        loop {
            let [left, right] = [LEFT, RIGHT].map(|side| self.nodes.child(at, side));
            match (self.nodes.weight(left), self.nodes.weight(right)) {
                (None, None) => break,
                // `None`, no child, compares below every weight.
                (lefts, rights) => self.rotate_up(if lefts >= rights { left } else { right }),
            }
        }
        self.nodes.supplant(at, NIL);
        self.nodes.vacate(at);
        self.nodes.settle();
        range
    }
}
