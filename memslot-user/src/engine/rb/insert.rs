//! Insertion, as `rb_link_node` and `rb_insert_color` do it.

use super::{LEFT, NIL, Node, RIGHT, Range, Tree};

impl<const AUGMENTED: bool> Tree<AUGMENTED> {
    /// Adds a range behind all of lower or equal start. The caller has checked that it may be there,
    /// and that the array has room for another index.
    pub(in crate::engine) fn insert(&mut self, range: Range) {
        let (mut parent, mut side, mut at) = (NIL, LEFT, self.root);
        let mut leftmost = true;
        while let Some(node) = self.node(at) {
            (parent, side) = (at, usize::from(range.start >= node.range.start));
            leftmost &= side == LEFT;
            at = node.children[side];
        }
        let new =
            self.place(Node { range, subtree_last: range.last, parent, children: [NIL; 2], black: false });
        self.link(parent, side, new);
        if leftmost {
            self.leftmost = new;
        }
        self.update_up(new);
        self.rebalance_insert(new);
    }

    /// Stores a node in a freed or a new place.
    pub(super) fn place(&mut self, node: Node) -> u32 {
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).unwrap_or(NIL)
    }

    /// Restores "no red node has a red parent", which `at` may break.
    fn rebalance_insert(&mut self, mut at: u32) {
        loop {
            let mut parent = self.parent(at);
            if parent == NIL {
                self.paint(at, true);
                return;
            }
            if !self.is_red(parent) {
                return;
            }
            // A red node is never the root, so there is a grandparent.
            let grandparent = self.parent(parent);
            let side = self.side(grandparent, parent);
            let uncle = self.child(grandparent, 1 - side);
            if self.is_red(uncle) {
                self.paint(parent, true);
                self.paint(uncle, true);
                self.paint(grandparent, false);
                at = grandparent;
                continue;
            }
            if self.child(parent, 1 - side) == at {
                self.rotate(parent, side);
                parent = at;
            }
            self.rotate(grandparent, 1 - side);
            self.paint(parent, true);
            self.paint(grandparent, false);
            return;
        }
    }
}

const _: () = assert!(LEFT == 0 && RIGHT == 1, "a comparison gives the side");
