//! vhost's tree of regions (`vhost_iotlb.root`), searched as `vhost_iotlb_itree_first` does.

use super::rb::{LEFT, NIL, SnapshotNode, Tree};
use super::{BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_each};

/// Regions by first address, each node knowing the largest end below it. As in vhost, regions may
/// overlap.
#[derive(Clone, Debug, Default)]
pub struct IntervalTree {
    tree: Tree<true>,
}

impl IntervalTree {
    /// The tree of a snapshot, in pre-order.
    ///
    /// # Errors
    /// No red-black tree has this walk.
    pub fn from_snapshot(walk: &[SnapshotNode]) -> Result<Self, InvariantError> {
        Ok(Self { tree: Tree::from_snapshot(Self::ID.name(), walk)? })
    }

    /// The tree as a snapshot.
    #[must_use]
    pub fn pre_order(&self) -> Vec<SnapshotNode> {
        self.tree.pre_order()
    }

    /// The region of the lowest start that shares an address with `start..=last`.
    #[inline]
    pub fn first(&self, start: u64, last: u64, observer: &mut impl Observer) -> Option<Range> {
        self.first_node(start, last, observer).and_then(|at| self.tree.node(at)).map(|node| node.range)
    }

    /// Removes and returns what [`Self::first`] finds.
    pub fn remove_first(&mut self, start: u64, last: u64) -> Option<Range> {
        self.first_node(start, last, &mut ()).map(|at| self.tree.erase(at))
    }

    #[inline]
    fn first_node(&self, start: u64, last: u64, observer: &mut impl Observer) -> Option<u32> {
        let root = self.tree.node(self.tree.root)?;
        self.tree.tell(self.tree.root, observer);
        if root.subtree_last < start {
            observer.touch(root.range.key);
            return None;
        }
        let leftmost = self.tree.node(self.tree.leftmost)?;
        self.tree.tell(self.tree.leftmost, observer);
        if leftmost.range.start > last {
            observer.touch(root.range.key);
            if self.tree.leftmost != self.tree.root {
                observer.touch(leftmost.range.key);
            }
            return None;
        }
        // The leftmost node was read; a node is told once, so see whether the way down meets it too.
        let mut leftmost_met = false;
        let (mut at, mut node) = (self.tree.root, root);
        let found = loop {
            observer.visit(node.range.key);
            self.tree.tell(at, observer);
            leftmost_met |= at == self.tree.leftmost;
            // The side is an index, so that no guess of it can be wrong.
            let left = self.tree.node(node.children[LEFT]);
            let goes_left = left.is_some_and(|left| start <= left.subtree_last);
            if !goes_left && let Some(left) = left {
                // Rejected, but its end was read.
                self.tree.tell(node.children[LEFT], observer);
                observer.touch(left.range.key);
                leftmost_met |= node.children[LEFT] == self.tree.leftmost;
            }
            let holds = (node.range.start <= last) & (start <= node.range.last);
            if !goes_left & (holds | (node.range.start > last)) {
                break holds.then_some(at);
            }
            let next = node.children[usize::from(!goes_left)];
            let Some(below) = self.tree.node(next) else { break None };
            if start > below.subtree_last {
                // Only a right child can be rejected here.
                self.tree.tell(next, observer);
                observer.touch(below.range.key);
                break None;
            }
            (at, node) = (next, below);
        };
        if !leftmost_met {
            observer.touch(leftmost.range.key);
        }
        found
    }
}

impl Engine for IntervalTree {
    const ID: EngineId = EngineId::IntervalTree;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        let mut tree = Self::default();
        ranges.iter().try_for_each(|range| tree.insert(*range))?;
        Ok(tree)
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        self.first(addr, addr, observer)
    }

    fn validate(&self) -> Result<(), InvariantError> {
        self.tree.validate(Self::ID.name())
    }

    fn len(&self) -> usize {
        self.tree.len()
    }

    fn footprint(&self) -> usize {
        self.tree.footprint()
    }
}

impl DynamicEngine for IntervalTree {
    /// Unlike KVM's slots, regions may overlap: vhost does not refuse that.
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        check_each(&[range])?;
        if self.len() >= NIL as usize - 1 {
            return Err(BuildError::TooMany);
        }
        self.tree.insert(range);
        Ok(())
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        self.tree.at_start(start).map(|at| self.tree.erase(at))
    }
}
