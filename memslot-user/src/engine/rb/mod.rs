//! A red-black tree of the shape that the kernel's has: the same insertions and removals give the
//! same tree, node by node, so that search lengths can be compared with what a kernel did.
//!
//! The rules are the textbook's, with the choices that the kernel's `lib/rbtree.c` makes where the
//! textbook leaves one (a node with two children gives way to its in-order successor). With
//! `AUGMENTED` each node also knows the largest `last` below it, as in the kernel's interval tree.

mod erase;
mod insert;
mod snapshot;
mod validate;

pub use snapshot::SnapshotNode;

use super::{Observer, Range};

/// No node.
pub(super) const NIL: u32 = u32::MAX;
/// The side of lower starts.
pub(super) const LEFT: usize = 0;
/// The side of higher (or, in an interval tree, equal) starts.
pub(super) const RIGHT: usize = 1;

/// A node; nodes are named by their place in the array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) range: Range,
    /// Largest `last` of the node and all below it; kept only where augmented.
    pub(super) subtree_last: u64,
    pub(super) parent: u32,
    pub(super) children: [u32; 2],
    pub(super) black: bool,
}

/// The tree: nodes in a growable array, freed places reused.
#[derive(Clone, Debug)]
pub(super) struct Tree<const AUGMENTED: bool> {
    nodes: Vec<Node>,
    free: Vec<u32>,
    pub(super) root: u32,
    /// The node of the lowest start (`rb_leftmost`).
    pub(super) leftmost: u32,
}

impl<const AUGMENTED: bool> Default for Tree<AUGMENTED> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), root: NIL, leftmost: NIL }
    }
}

impl<const AUGMENTED: bool> Tree<AUGMENTED> {
    #[inline]
    pub(super) fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    /// Says that the node at `at`, which counts whole, is read.
    #[inline(always)]
    pub(super) fn tell(&self, at: u32, observer: &mut impl Observer) {
        observer.read(at as usize * size_of::<Node>(), size_of::<Node>());
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    pub(super) fn footprint(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.free.capacity() * size_of::<u32>()
    }

    /// The ranges in ascending order.
    pub(super) fn in_order(&self) -> Vec<Range> {
        let mut out = Vec::with_capacity(self.len());
        let mut at = self.leftmost;
        while let Some(node) = self.node(at) {
            out.push(node.range);
            at = self.successor(at);
        }
        out
    }

    /// The nodes in pre-order, as a snapshot has them.
    pub(super) fn pre_order(&self) -> Vec<SnapshotNode> {
        let mut out = Vec::with_capacity(self.len());
        let mut open = vec![self.root];
        while let Some(at) = open.pop() {
            if let Some(node) = self.node(at) {
                out.push(SnapshotNode { range: node.range, black: node.black });
                open.extend([node.children[RIGHT], node.children[LEFT]]);
            }
        }
        out
    }

    /// The node that starts at `start`.
    pub(super) fn at_start(&self, start: u64) -> Option<u32> {
        let mut at = self.root;
        while let Some(node) = self.node(at) {
            if node.range.start == start {
                return Some(at);
            }
            at = node.children[usize::from(start > node.range.start)];
        }
        None
    }

    fn child(&self, at: u32, side: usize) -> u32 {
        self.nodes[at as usize].children[side]
    }

    fn parent(&self, at: u32) -> u32 {
        self.nodes[at as usize].parent
    }

    /// Leaves are black.
    fn is_red(&self, at: u32) -> bool {
        self.node(at).is_some_and(|node| !node.black)
    }

    fn paint(&mut self, at: u32, black: bool) {
        self.nodes[at as usize].black = black;
    }

    /// Which child of `parent` is `at`?
    fn side(&self, parent: u32, at: u32) -> usize {
        usize::from(self.child(parent, RIGHT) == at)
    }

    /// Hangs `at`, which may be no node, under `parent` on `side`, or as the root.
    fn link(&mut self, parent: u32, side: usize, at: u32) {
        match self.nodes.get_mut(parent as usize) {
            Some(node) => node.children[side] = at,
            None => self.root = at,
        }
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.parent = parent;
        }
    }

    /// Puts `new` in the place that `old` has under its parent.
    fn supplant(&mut self, old: u32, new: u32) {
        let parent = self.parent(old);
        let side = if parent == NIL { LEFT } else { self.side(parent, old) };
        self.link(parent, side, new);
    }

    /// Turns `at` down to `side`; its child on the other side takes its place.
    fn rotate(&mut self, at: u32, side: usize) {
        let rises = self.child(at, 1 - side);
        let inner = self.child(rises, side);
        self.supplant(at, rises);
        self.link(at, 1 - side, inner);
        self.link(rises, side, at);
        self.update(at);
        self.update(rises);
    }

    /// Computes `subtree_last` of one node from its children's.
    fn update(&mut self, at: u32) {
        if AUGMENTED {
            let node = self.nodes[at as usize];
            let below = node.children.into_iter().filter_map(|child| Some(self.node(child)?.subtree_last));
            self.nodes[at as usize].subtree_last = below.fold(node.range.last, u64::max);
        }
    }

    /// The same for a node and all above it.
    fn update_up(&mut self, mut at: u32) {
        while AUGMENTED && at != NIL {
            self.update(at);
            at = self.parent(at);
        }
    }

    /// The furthest node below `at` towards `side`.
    fn furthest(&self, mut at: u32, side: usize) -> u32 {
        while let Some(node) = self.node(at).filter(|node| node.children[side] != NIL) {
            at = node.children[side];
        }
        at
    }

    /// The next node in order.
    fn successor(&self, mut at: u32) -> u32 {
        let right = self.child(at, RIGHT);
        if right != NIL {
            return self.furthest(right, LEFT);
        }
        let mut parent = self.parent(at);
        while parent != NIL && self.child(parent, RIGHT) == at {
            (at, parent) = (parent, self.parent(parent));
        }
        parent
    }
}
