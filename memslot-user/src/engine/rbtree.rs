//! KVM's tree of slots since 5.17 (`kvm_memslots.gfn_tree`).

use super::rb::{SnapshotNode, Tree};
use super::{
    BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_disjoint, check_each,
};

/// Slots by first frame, searched as `search_memslots` does.
#[derive(Clone, Debug, Default)]
pub struct RbTree {
    tree: Tree<()>,
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
}

impl Engine for RbTree {
    const ID: EngineId = EngineId::Rbtree;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_disjoint(ranges)?;
        Ok(Self { tree: Tree::of(ranges) })
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        self.tree.nodes.search(addr, observer)
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

impl DynamicEngine for RbTree {
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        check_each(&[range])?;
        match self.tree.nodes.overlapping(&range) {
            Some(held) => Err(BuildError::Overlap(range, held)),
            None if self.tree.nodes.is_full() => Err(BuildError::TooMany),
            None => {
                self.tree.insert(range);
                Ok(())
            }
        }
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        self.tree.nodes.at_start(start).and_then(|at| self.tree.erase(at))
    }
}
