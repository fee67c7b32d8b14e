//! The weight-balanced tree proposed for KVM's slots in 2011.
//!
//! A binary search tree on the start, heap-ordered on the size, so that the largest range is found
//! first; nodes live in a growable array. Its patch text is not to be found: what follows is our
//! reading. Insert as a leaf and rotate up while heavier than the parent; erase by rotating the
//! heavier child up until the node is a leaf. With distinct weights the shape is unique (a Cartesian
//! tree), whatever the order of operations.
//!
//! Tie-break, ours: of equal weights the older stays above on insertion; on erasure the left child
//! goes up. So equal ranges inserted in ascending order make a list: 256 equal DIMMs are 256 deep.

use super::{BuildError, DynamicEngine, Engine, EngineId, InvariantError, Observer, Range, check_each};

const NIL: u32 = u32::MAX;
const LEFT: usize = 0;
const RIGHT: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Node {
    range: Range,
    parent: u32,
    children: [u32; 2],
}

/// The tree.
#[derive(Clone, Debug)]
pub struct WbTree {
    nodes: Vec<Node>,
    root: u32,
}

impl Default for WbTree {
    fn default() -> Self {
        Self { nodes: Vec::new(), root: NIL }
    }
}

impl WbTree {
    /// Nodes on the longest way from the root down.
    #[must_use]
    pub fn depth(&self) -> usize {
        let mut deepest = 0;
        let mut open = vec![(self.root, 1)];
        while let Some((at, depth)) = open.pop() {
            if let Some(node) = self.node(at) {
                deepest = deepest.max(depth);
                open.extend(node.children.map(|child| (child, depth + 1)));
            }
        }
        deepest
    }

    /// The ranges in pre-order: with the search order this fixes the shape.
    #[must_use]
    pub fn pre_order(&self) -> Vec<Range> {
        let mut out = Vec::with_capacity(self.nodes.len());
        let mut open = vec![self.root];
        while let Some(at) = open.pop() {
            if let Some(node) = self.node(at) {
                out.push(node.range);
                open.extend([node.children[RIGHT], node.children[LEFT]]);
            }
        }
        out
    }

    #[inline]
    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }

    fn weight(&self, at: u32) -> Option<u64> {
        self.node(at).map(|node| node.range.weight())
    }

    /// Which child of `parent` is `at`?
    fn side(&self, parent: u32, at: u32) -> usize {
        usize::from(self.nodes[parent as usize].children[RIGHT] == at)
    }

    /// Makes `at` the child of `parent` on `side`, or the root where there is no parent.
    fn link(&mut self, parent: u32, side: usize, at: u32) {
        match self.nodes.get_mut(parent as usize) {
            Some(node) => node.children[side] = at,
            None => self.root = at,
        }
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.parent = parent;
        }
    }

    /// Rotates `at` into its parent's place.
    fn rotate_up(&mut self, at: u32) {
        let parent = self.nodes[at as usize].parent;
        let side = self.side(parent, at);
        let grandparent = self.nodes[parent as usize].parent;
        let above = if grandparent == NIL { LEFT } else { self.side(grandparent, parent) };
        let inner = self.nodes[at as usize].children[1 - side];
        self.link(parent, side, inner);
        self.link(at, 1 - side, parent);
        self.link(grandparent, above, at);
    }

    /// Takes the last node of the array to the place of `at`, which must hang nowhere.
    fn vacate(&mut self, at: u32) {
        let moved = self.nodes.len() - 1;
        self.nodes.swap_remove(at as usize);
        if moved == at as usize {
            return;
        }
        let node = self.nodes[at as usize];
        for side in [LEFT, RIGHT] {
            self.link(at, side, node.children[side]);
        }
        match self.nodes.get_mut(node.parent as usize) {
            Some(parent) => {
                let side = usize::from(parent.children[RIGHT] as usize == moved);
                parent.children[side] = at;
            }
            None => self.root = at,
        }
    }

    fn broken(rule: String) -> InvariantError {
        InvariantError { engine: EngineId::Wbtree.name(), rule }
    }
}

impl Engine for WbTree {
    const ID: EngineId = EngineId::Wbtree;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        check_each(ranges)?;
        let mut tree = Self { nodes: Vec::with_capacity(ranges.len()), root: NIL };
        ranges.iter().try_for_each(|range| tree.insert(*range))?;
        Ok(tree)
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        let mut at = self.root;
        while let Some(node) = self.node(at) {
            observer.visit(node.range.key);
            observer.read(at as usize * size_of::<Node>(), size_of::<Node>());
            if addr < node.range.start {
                at = node.children[LEFT];
            } else if addr <= node.range.last {
                return Some(node.range);
            } else {
                at = node.children[RIGHT];
            }
        }
        None
    }

    fn validate(&self) -> Result<(), InvariantError> {
        let mut seen = 0;
        // Each node with the bounds that its ancestors set: exclusive below, exclusive above.
        let mut open: Vec<(u32, u32, Option<u64>, Option<u64>)> = vec![(self.root, NIL, None, None)];
        while let Some((at, parent, low, high)) = open.pop() {
            let Some(node) = self.node(at) else { continue };
            let range = node.range;
            seen += 1;
            if seen > self.nodes.len() {
                return Err(Self::broken("a node hangs in two places".to_owned()));
            }
            if node.parent != parent {
                return Err(Self::broken(format!("{range:?} does not know its parent")));
            }
            if low.is_some_and(|low| range.start <= low) || high.is_some_and(|high| range.last >= high) {
                return Err(Self::broken(format!("{range:?} stands on the wrong side of an ancestor")));
            }
            if self.weight(parent).is_some_and(|above| above < range.weight()) {
                return Err(Self::broken(format!("{range:?} is heavier than its parent")));
            }
            open.push((node.children[LEFT], at, low, Some(range.start)));
            open.push((node.children[RIGHT], at, Some(range.last), high));
        }
        if seen == self.nodes.len() { Ok(()) } else { Err(Self::broken("a node hangs nowhere".to_owned())) }
    }

    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn footprint(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>()
    }
}

impl DynamicEngine for WbTree {
    fn insert(&mut self, range: Range) -> Result<(), BuildError> {
        check_each(&[range])?;
        let new =
            u32::try_from(self.nodes.len()).ok().filter(|new| *new != NIL).ok_or(BuildError::TooMany)?;
        let (mut parent, mut side, mut at) = (NIL, LEFT, self.root);
        while let Some(node) = self.node(at) {
            if node.range.overlaps(&range) {
                return Err(BuildError::Overlap(range, node.range));
            }
            (parent, side) = (at, usize::from(range.start > node.range.start));
            at = node.children[side];
        }
        self.nodes.push(Node { range, parent, children: [NIL; 2] });
        self.link(parent, side, new);
        while self.weight(self.nodes[new as usize].parent).is_some_and(|above| above < range.weight()) {
            self.rotate_up(new);
        }
        Ok(())
    }

    fn remove(&mut self, start: u64) -> Option<Range> {
        let mut at = self.root;
        let range = loop {
            let node = self.node(at)?;
            if node.range.start == start {
                break node.range;
            }
            at = node.children[usize::from(start > node.range.start)];
        };
        loop {
            let [left, right] = self.nodes[at as usize].children;
            match (self.weight(left), self.weight(right)) {
                (None, None) => break,
                // `None`, no child, compares below every weight.
                (lefts, rights) => self.rotate_up(if lefts >= rights { left } else { right }),
            }
        }
        let parent = self.nodes[at as usize].parent;
        let side = if parent == NIL { LEFT } else { self.side(parent, at) };
        self.link(parent, side, NIL);
        self.vacate(at);
        Some(range)
    }
}
