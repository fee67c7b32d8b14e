//! Removal, as `rb_erase` does it.

use super::{End, LEFT, NIL, RIGHT, Range, Tree};

impl<E: End> Tree<E> {
    /// Removes the node `at`, which must be in the tree.
    pub(in crate::engine) fn erase(&mut self, at: u32) -> Option<Range> {
        let range = self.nodes.range(at)?;
        if self.leftmost == at {
            self.leftmost = self.successor(at);
        }
        let [left, right] = [LEFT, RIGHT].map(|side| self.nodes.child(at, side));
        let black = !self.nodes.is_red(at);
        // Where the tree changed deepest, and whether a black node is missing below it.
        let (changed, lacks_black) = if left == NIL || right == NIL {
            let child = if left == NIL { right } else { left };
            self.nodes.supplant(at, child);
            if child == NIL {
                (self.nodes.parent(at), black)
            } else {
                // An only child is red, and its parent black.
                self.nodes.paint(child, black);
                (child, false)
            }
        } else {
            self.give_way(at)
        };
        self.nodes.update_up(changed);
        if lacks_black && changed != NIL {
            self.rebalance_erase(changed);
        }
        self.nodes.vacate(at);
        self.settle();
        Some(range)
    }

    /// Puts the in-order successor in the place of `at`, which has two children. Returns the node
    /// under which the successor was, and whether a black node is missing there.
    fn give_way(&mut self, at: u32) -> (u32, bool) {
        let [left, right] = [LEFT, RIGHT].map(|side| self.nodes.child(at, side));
        let successor = self.furthest(right, LEFT);
        let orphan = self.nodes.child(successor, RIGHT);
        let lacks_black = !self.nodes.is_red(successor) && orphan == NIL;
        let changed = if successor == right {
            successor
        } else {
            let parent = self.nodes.parent(successor);
            self.nodes.link(parent, LEFT, orphan);
            self.nodes.link(successor, RIGHT, right);
            parent
        };
        if orphan != NIL {
            // The only child of a black node is red.
            self.nodes.paint(orphan, true);
        }
        self.nodes.link(successor, LEFT, left);
        self.nodes.supplant(at, successor);
        self.nodes.paint(successor, !self.nodes.is_red(at));
        (changed, lacks_black)
    }

    /// Restores "every way down has as many black nodes"; one is missing below `parent`, where no
    /// node is.
    fn rebalance_erase(&mut self, mut parent: u32) {
        let mut at = NIL;
        loop {
            // The lacking side is never the sibling's: that one has a black node more, so it exists.
            let side = usize::from(self.nodes.child(parent, RIGHT) == at);
            let mut sibling = self.nodes.child(parent, 1 - side);
            if self.nodes.is_red(sibling) {
                self.nodes.rotate(parent, side);
                self.nodes.paint(sibling, true);
                self.nodes.paint(parent, false);
                sibling = self.nodes.child(parent, 1 - side);
            }
            if !self.nodes.is_red(self.nodes.child(sibling, 1 - side)) {
                let inner = self.nodes.child(sibling, side);
                if !self.nodes.is_red(inner) {
                    self.nodes.paint(sibling, false);
                    if self.nodes.is_red(parent) {
                        self.nodes.paint(parent, true);
                        return;
                    }
                    (at, parent) = (parent, self.nodes.parent(parent));
                    if parent == NIL {
                        return;
                    }
                    continue;
                }
                self.nodes.rotate(sibling, 1 - side);
                sibling = inner;
            }
            let outer = self.nodes.child(sibling, 1 - side);
            self.nodes.rotate(parent, side);
            self.nodes.paint(sibling, !self.nodes.is_red(parent));
            self.nodes.paint(parent, true);
            self.nodes.paint(outer, true);
            return;
        }
    }
}
