//! vhost's tree of regions (`vhost_iotlb.root`), searched as `vhost_iotlb_itree_first` does.

use super::nodes::NIL;
use super::rb::{SnapshotNode, Tree};
use super::{BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_each};
use std::hint::select_unpredictable;

/// Regions by first address, each node knowing the largest end below it. As in vhost, regions may
/// overlap.
#[derive(Clone, Debug, Default)]
pub struct IntervalTree {
    tree: Tree<u64>,
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
    pub fn first<O: Observer>(&self, start: u64, last: u64, observer: &mut O) -> Option<Range> {
        self.first_node(start, last, observer).and_then(|at| self.tree.nodes.range(at))
    }

    /// Removes and returns what [`Self::first`] finds.
    pub fn remove_first(&mut self, start: u64, last: u64) -> Option<Range> {
        self.first_node(start, last, &mut ()).and_then(|at| self.tree.erase(at))
    }

    #[inline(always)]
    fn first_node<O: Observer>(&self, start: u64, last: u64, observer: &mut O) -> Option<u32> {
        let (nodes, leftmost) = (&self.tree.nodes, self.tree.leftmost);
        let (mut at, mut node) = (nodes.root, nodes.get(nodes.root)?);
        nodes.tell_end(at, observer);
        if nodes.end(at) < start {
            observer.touch(nodes.key(at));
            return None;
        }
        nodes.tell_node(leftmost, observer);
        if nodes.get(leftmost)?.start > last {
            observer.touch(nodes.key(at));
            if leftmost != at && O::HEARS {
                observer.touch(nodes.key(leftmost));
            }
            return None;
        }
        // The leftmost node was read; a node is told once, so see whether the way down meets it too.
        let (mut leftmost_met, mut over) = (false, false);
        loop {
            let [left, right] = node.children.both();
            let goes_left = start <= node.left_end;
            nodes.tell_node(at, observer);
            if O::HEARS && !over {
                observer.visit(nodes.key(at));
                leftmost_met |= at == leftmost;
                if !goes_left && left != NIL {
                    // The kernel reads the end in the child itself.
                    observer.touch(nodes.key(left));
                    leftmost_met |= left == leftmost;
                }
                if !goes_left && node.last < start && right != NIL && nodes.end(right) < start {
                    // Rejected too: the kernel's search is over. This one, which does not ask, goes on
                    // below, in vain.
                    observer.touch(nodes.key(right));
                    over = true;
                }
            }
            // Chosen without a branch, so that no guess of the side can be wrong. Where there is no left
            // child and the search begins at 0, the way ends here as well: no start is lower.
            let right = select_unpredictable(node.last < start, right, NIL);
            let next = select_unpredictable(goes_left, left, right);
            let Some(below) = nodes.get(next) else { break };
            (at, node) = (next, below);
        }
        let found = (node.start <= last && start <= node.last).then_some(at);
        if O::HEARS && !leftmost_met {
            observer.touch(nodes.key(leftmost));
        }
        if let Some(at) = found {
            nodes.tell_key(at, observer);
        }
        found
    }
}

impl Engine for IntervalTree {
    const ID: EngineId = EngineId::IntervalTree;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_each(ranges)?;
        Ok(Self { tree: Tree::of(ranges) })
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        self.first(addr, addr, observer)
    }

    fn validate(&self) -> Result<(), InvariantError> {
        self.tree.validate(Self::ID.name())
    }

    fn len(&self) -> usize {
        self.tree.nodes.len()
    }

    fn footprint(&self) -> usize {
        self.tree.nodes.footprint()
    }
}

impl DynamicEngine for IntervalTree {
    /// Unlike KVM's slots, regions may overlap: vhost does not refuse that.
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        check_each(&[range])?;
        if self.tree.nodes.is_full() {
            return Err(BuildError::TooMany);
        }
        self.tree.insert(range);
        Ok(())
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        self.tree.nodes.at_start(start).and_then(|at| self.tree.erase(at))
    }
}
