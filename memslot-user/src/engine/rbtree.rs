//! KVM's tree of slots since 5.17 (`kvm_memslots.gfn_tree`).

use super::rb::{SnapshotNode, Tree};
use super::{BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_each};

/// Slots by first frame, searched as `search_memslots` does.
#[derive(Clone, Debug, Default)]
pub struct RbTree {
    tree: Tree<false>,
}

impl RbTree {
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

    fn overlapping(&self, range: &Range) -> Option<Range> {
        let mut at = self.tree.root;
        while let Some(node) = self.tree.node(at) {
            if node.range.overlaps(range) {
                return Some(node.range);
            }
            at = node.children[usize::from(range.start > node.range.start)];
        }
        None
    }
}

impl Engine for RbTree {
    const ID: EngineId = EngineId::Rbtree;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_each(ranges)?;
        let mut tree = Self::default();
        ranges.iter().try_for_each(|range| tree.insert(*range))?;
        Ok(tree)
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        let mut at = self.tree.root;
        while let Some(node) = self.tree.node(at) {
            observer.visit(node.range.key);
            self.tree.tell(at, observer);
            // One branch, which is taken once: the side is an index, so that no guess of it can be wrong.
            if addr.wrapping_sub(node.range.start) <= node.range.weight() {
                return Some(node.range);
            }
            at = node.children[usize::from(addr > node.range.start)];
        }
        None
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

impl DynamicEngine for RbTree {
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        check_each(&[range])?;
        match self.overlapping(&range) {
            Some(held) => Err(BuildError::Overlap(range, held)),
            None if self.len() >= u32::MAX as usize - 1 => Err(BuildError::TooMany),
            None => {
                self.tree.insert(range);
                Ok(())
            }
        }
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        self.tree.at_start(start).map(|at| self.tree.erase(at))
    }
}
