//! Every rule of the tree.

use super::super::InvariantError;
use super::{End, LEFT, NIL, RIGHT, Tree};

/// A red-black tree of 2^32 nodes is no deeper.
const DEEPEST: u32 = 66;

impl<E: End> Tree<E> {
    /// Checks order, links, colours, black height, the largest ends, `leftmost` and the count.
    pub(in crate::engine) fn validate(&self, engine: &'static str) -> Result<(), InvariantError> {
        let broken = |rule: String| InvariantError { engine, rule };
        if self.nodes.is_red(self.nodes.root) {
            return Err(broken("the root is red".to_owned()));
        }
        let mut count = 0;
        self.check(self.nodes.root, NIL, 0, &mut count).map_err(broken)?;
        if count != self.nodes.len() {
            return Err(broken(format!("{count} of {} nodes hang in the tree", self.nodes.len())));
        }
        if self.leftmost != self.furthest(self.nodes.root, LEFT) {
            return Err(broken("the leftmost node is another".to_owned()));
        }
        let ranges = self.in_order();
        // An interval tree may hold overlapping ranges; starts are in order in both.
        match ranges.windows(2).find(|pair| match E::KEPT {
            true => pair[0].start > pair[1].start,
            false => pair[0].last >= pair[1].start,
        }) {
            Some(pair) => Err(broken(format!("{:?} stands before {:?}", pair[0], pair[1]))),
            None => Ok(()),
        }
    }

    /// Checks what hangs at `at`; returns its black height.
    fn check(&self, at: u32, parent: u32, depth: u32, count: &mut usize) -> Result<u32, String> {
        let (Some(node), Some(range)) = (self.nodes.get(at), self.nodes.range(at)) else { return Ok(0) };
        if depth > DEEPEST {
            return Err(format!("deeper than {DEEPEST}"));
        }
        *count += 1;
        if self.nodes.parent(at) != parent {
            return Err(format!("{range:?} does not know its parent"));
        }
        let red = self.nodes.is_red(at);
        if red && self.nodes.is_red(parent) {
            return Err(format!("{range:?} and its parent are red"));
        }
        let below = node.children.both();
        let left = self.check(below[LEFT], at, depth + 1, count)?;
        let right = self.check(below[RIGHT], at, depth + 1, count)?;
        if left != right {
            return Err(format!("{left} black nodes left of {range:?}, {right} right of it"));
        }
        if E::KEPT && self.nodes.ends(at) != [node.left_end.get(), self.nodes.end(at)] {
            return Err(format!("{range:?} does not know the largest ends below it"));
        }
        Ok(left + u32::from(!red))
    }
}
