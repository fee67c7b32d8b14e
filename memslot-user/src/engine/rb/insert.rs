//! Insertion, as `rb_link_node` and `rb_insert_color` do it.

use super::{End, LEFT, NIL, Range, Tree};

impl<E: End> Tree<E> {
    /// Adds a range behind all of lower or equal start. The caller has checked that it may be there,
    /// and that the array has room for another index.
    pub(in crate::engine) fn insert(&mut self, range: Range) {
        self.add(range);
        self.settle();
    }

    /// The same without a thought of where the nodes lie.
    pub(super) fn add(&mut self, range: Range) {
        let (mut parent, mut side, mut at) = (NIL, LEFT, self.nodes.root);
        let mut leftmost = true;
        while let Some(node) = self.nodes.get(at) {
            (parent, side) = (at, usize::from(range.start >= node.start));
            leftmost &= side == LEFT;
            at = node.children.both()[side];
        }
        let new = self.nodes.place(range);
        self.nodes.link(parent, side, new);
        if leftmost {
            self.leftmost = new;
        }
        self.nodes.update_up(new);
        self.rebalance_insert(new);
    }

    /// Restores "no red node has a red parent", which `at` may break.
    fn rebalance_insert(&mut self, mut at: u32) {
        loop {
            let mut parent = self.nodes.parent(at);
            if parent == NIL {
                self.nodes.paint(at, true);
                return;
            }
            if !self.nodes.is_red(parent) {
                return;
            }
            // A red node is never the root, so there is a grandparent.
            let grandparent = self.nodes.parent(parent);
            let side = self.nodes.side(grandparent, parent);
            let uncle = self.nodes.child(grandparent, 1 - side);
            if self.nodes.is_red(uncle) {
                self.nodes.paint(parent, true);
                self.nodes.paint(uncle, true);
                self.nodes.paint(grandparent, false);
                at = grandparent;
                continue;
            }
            if self.nodes.child(parent, 1 - side) == at {
                self.nodes.rotate(parent, side);
                parent = at;
            }
            self.nodes.rotate(grandparent, 1 - side);
            self.nodes.paint(parent, true);
            self.nodes.paint(grandparent, false);
            return;
        }
    }
}
