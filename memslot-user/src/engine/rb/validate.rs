//! Every rule of the tree.

use super::super::InvariantError;
use super::{LEFT, NIL, RIGHT, Tree};

/// A red-black tree of 2^32 nodes is no deeper.
const DEEPEST: u32 = 66;

impl<const AUGMENTED: bool> Tree<AUGMENTED> {
    /// Checks order, links, colours, black height, `subtree_last`, `leftmost` and the count.
    pub(in crate::engine) fn validate(&self, engine: &'static str) -> Result<(), InvariantError> {
        let broken = |rule: String| InvariantError { engine, rule };
        if self.is_red(self.root) {
            return Err(broken("the root is red".to_owned()));
        }
        let mut count = 0;
        self.check(self.root, NIL, 0, &mut count).map_err(broken)?;
        if count != self.len() {
            return Err(broken(format!("{count} of {} nodes hang in the tree", self.len())));
        }
        if self.leftmost != self.furthest(self.root, LEFT) {
            return Err(broken("the leftmost node is another".to_owned()));
        }
        let ranges = self.in_order();
        // An interval tree may hold overlapping ranges; starts are in order in both.
        match ranges.windows(2).find(|pair| match AUGMENTED {
            true => pair[0].start > pair[1].start,
            false => pair[0].last >= pair[1].start,
        }) {
            Some(pair) => Err(broken(format!("{:?} stands before {:?}", pair[0], pair[1]))),
            None => Ok(()),
        }
    }

    /// Checks what hangs at `at`; returns its black height.
    fn check(&self, at: u32, parent: u32, depth: u32, count: &mut usize) -> Result<u32, String> {
        let Some(node) = self.node(at) else { return Ok(0) };
        if depth > DEEPEST {
            return Err(format!("deeper than {DEEPEST}"));
        }
        *count += 1;
        if node.parent != parent {
            return Err(format!("{:?} does not know its parent", node.range));
        }
        if !node.black && self.is_red(parent) {
            return Err(format!("{:?} and its parent are red", node.range));
        }
        let left = self.check(node.children[LEFT], at, depth + 1, count)?;
        let right = self.check(node.children[RIGHT], at, depth + 1, count)?;
        if left != right {
            return Err(format!("{left} black nodes left of {:?}, {right} right of it", node.range));
        }
        let below = node.children.into_iter().filter_map(|child| Some(self.node(child)?.subtree_last));
        if AUGMENTED && node.subtree_last != below.fold(node.range.last, u64::max) {
            return Err(format!("{:?} has a wrong largest end", node.range));
        }
        Ok(left + u32::from(node.black))
    }
}
