//! A tree from the pre-order walk of a live one.

use super::super::{BuildError, InvariantError, Range, check_each};
use super::{End, LEFT, NIL, RIGHT, Tree};

/// A node of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotNode {
    /// Its range.
    pub range: Range,
    /// Its colour.
    pub black: bool,
}

impl<E: End> Tree<E> {
    /// The tree whose nodes stand in `walk` in pre-order. Since it is a search tree, the order alone
    /// fixes the shape; a walk that no red-black tree can have is refused.
    pub(in crate::engine) fn from_snapshot(
        engine: &'static str,
        walk: &[SnapshotNode],
    ) -> Result<Self, InvariantError> {
        let broken = |error: BuildError| InvariantError { engine, rule: error.to_string() };
        let ranges: Vec<Range> = walk.iter().map(|node| node.range).collect();
        check_each(&ranges).map_err(broken)?;
        let mut tree = Self::default();
        // The ancestors whose right side is still open, from the root down.
        let mut open: Vec<u32> = Vec::new();
        let mut placed = Vec::with_capacity(walk.len());
        for SnapshotNode { range, black } in walk.iter().copied() {
            let (mut parent, mut side) = (open.last().copied().unwrap_or(NIL), LEFT);
            while let Some(above) = open
                .last()
                .copied()
                .filter(|above| tree.nodes.get(*above).is_some_and(|above| above.start <= range.start))
            {
                (parent, side) = (above, RIGHT);
                open.pop();
            }
            let new = tree.nodes.place(range);
            tree.nodes.paint(new, black);
            tree.nodes.link(parent, side, new);
            open.push(new);
            placed.push(new);
        }
        // In pre-order every node comes before those below it: backwards, children come first.
        for at in placed.into_iter().rev() {
            tree.nodes.update(at);
        }
        tree.order();
        tree.validate(engine)?;
        Ok(tree)
    }
}
