//! Removal, as `rb_erase` does it.

use super::{LEFT, NIL, RIGHT, Range, Tree};

impl<const AUGMENTED: bool> Tree<AUGMENTED> {
    /// Removes the node `at`, which must be in the tree.
    pub(in crate::engine) fn erase(&mut self, at: u32) -> Range {
        if self.leftmost == at {
            self.leftmost = self.successor(at);
        }
        let node = self.nodes[at as usize];
        let [left, right] = node.children;
        // Where the tree changed deepest, and whether a black node is missing below it.
        let (changed, lacks_black) = if left == NIL || right == NIL {
            let child = if left == NIL { right } else { left };
            self.supplant(at, child);
            if child == NIL {
                (node.parent, node.black)
            } else {
                // An only child is red, and its parent black.
                self.paint(child, node.black);
                (child, false)
            }
        } else {
            self.give_way(at)
        };
        self.update_up(changed);
        if lacks_black && changed != NIL {
            self.rebalance_erase(changed);
        }
        self.free.push(at);
        node.range
    }

    /// Puts the in-order successor in the place of `at`, which has two children. Returns the node
    /// under which the successor was, and whether a black node is missing there.
    fn give_way(&mut self, at: u32) -> (u32, bool) {
        let node = self.nodes[at as usize];
        let successor = self.furthest(node.children[RIGHT], LEFT);
        let orphan = self.child(successor, RIGHT);
        let lacks_black = self.nodes[successor as usize].black && orphan == NIL;
        let changed = if successor == node.children[RIGHT] {
            successor
        } else {
            let parent = self.parent(successor);
            self.link(parent, LEFT, orphan);
            self.link(successor, RIGHT, node.children[RIGHT]);
            parent
        };
        if orphan != NIL {
            // The only child of a black node is red.
            self.paint(orphan, true);
        }
        self.link(successor, LEFT, node.children[LEFT]);
        self.supplant(at, successor);
        self.paint(successor, node.black);
        (changed, lacks_black)
    }

    /// Restores "every way down has as many black nodes"; one is missing below `parent`, where no
    /// node is.
    fn rebalance_erase(&mut self, mut parent: u32) {
        let mut at = NIL;
        loop {
            // The lacking side is never the sibling's: that one has a black node more, so it exists.
            let side = usize::from(self.child(parent, RIGHT) == at);
            let mut sibling = self.child(parent, 1 - side);
            if self.is_red(sibling) {
                self.rotate(parent, side);
                self.paint(sibling, true);
                self.paint(parent, false);
                sibling = self.child(parent, 1 - side);
            }
            if !self.is_red(self.child(sibling, 1 - side)) {
                let inner = self.child(sibling, side);
                if !self.is_red(inner) {
                    self.paint(sibling, false);
                    if self.is_red(parent) {
                        self.paint(parent, true);
                        return;
                    }
                    (at, parent) = (parent, self.parent(parent));
                    if parent == NIL {
                        return;
                    }
                    continue;
                }
                self.rotate(sibling, 1 - side);
                sibling = inner;
            }
            let outer = self.child(sibling, 1 - side);
            self.rotate(parent, side);
            self.paint(sibling, self.nodes[parent as usize].black);
            self.paint(parent, true);
            self.paint(outer, true);
            return;
        }
    }
}
