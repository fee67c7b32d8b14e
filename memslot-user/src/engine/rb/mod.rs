//! A red-black tree of the shape that the kernel's has: the same insertions and removals give the
//! same tree, node by node, so that search lengths can be compared with what a kernel did.
//!
//! The rules are the textbook's, with the choices that the kernel's `lib/rbtree.c` makes where the
//! textbook leaves one (a node with two children gives way to its in-order successor). With `u64` for
//! `E` each node also knows the largest end below it, as in the kernel's interval tree.

mod erase;
mod insert;
mod snapshot;
mod validate;

pub use snapshot::SnapshotNode;

use super::Range;
use super::node::End;
use super::nodes::{LEFT, NIL, Nodes, RIGHT};

/// The tree.
#[derive(Clone, Debug)]
pub(super) struct Tree<E> {
    pub(super) nodes: Nodes<E>,
    /// The node of the lowest start (`rb_leftmost`).
    pub(super) leftmost: u32,
}

impl<E> Default for Tree<E> {
    fn default() -> Self {
        Self { nodes: Nodes::default(), leftmost: NIL }
    }
}

impl<E: End> Tree<E> {
    /// The tree that comes of inserting `ranges` in this order.
    pub(super) fn of(ranges: &[Range]) -> Self {
        let mut tree = Self::default();
        for range in ranges {
            tree.add(*range);
        }
        tree.order();
        tree
    }

    /// The ranges in ascending order.
    pub(super) fn in_order(&self) -> Vec<Range> {
        let mut out = Vec::with_capacity(self.nodes.len());
        let mut at = self.leftmost;
        while let Some(range) = self.nodes.range(at) {
            out.push(range);
            at = self.successor(at);
        }
        out
    }

    /// The nodes in pre-order, as a snapshot has them.
    pub(super) fn pre_order(&self) -> Vec<SnapshotNode> {
        let node = |at| Some(SnapshotNode { range: self.nodes.range(at)?, black: !self.nodes.is_red(at) });
        self.nodes.pre_order().into_iter().filter_map(node).collect()
    }

    /// Puts the nodes in order of [`Nodes`].
    fn order(&mut self) {
        self.nodes.order();
        self.leftmost = self.furthest(self.nodes.root, LEFT);
    }

    /// The same, if it is time.
    fn settle(&mut self) {
        self.nodes.settle();
        self.leftmost = self.furthest(self.nodes.root, LEFT);
    }

    /// The furthest node below `at` towards `side`.
    fn furthest(&self, mut at: u32, side: usize) -> u32 {
        while let Some(below) = self.nodes.get(at).map(|node| node.children.both()[side])
            && below != NIL
        {
            at = below;
        }
        at
    }

    /// The next node in order.
    fn successor(&self, mut at: u32) -> u32 {
        let right = self.nodes.child(at, RIGHT);
        if right != NIL {
            return self.furthest(right, LEFT);
        }
        let mut parent = self.nodes.parent(at);
        while parent != NIL && self.nodes.child(parent, RIGHT) == at {
            (at, parent) = (parent, self.nodes.parent(parent));
        }
        parent
    }
}
