//! The nodes of a search tree, and the search that KVM's trees have in common.
//!
//! What a search reads of a node lies apart from what only changes need, so that a line holds more of
//! it; and the nodes lie in pre-order with the larger subtree first, so that more often than not the next
//! node of a search is the neighbour. A change puts its node wherever a place is free. The order is
//! restored when a tree has been built, and then after as many changes as it has nodes, so that a change
//! costs O(1) for it on average. The shape is never touched by that, and with it no count of nodes.

use super::node::{Children, End, Node};
use super::{LINE, Observer, Range, next_line};
use std::mem::offset_of;

/// No node.
pub(super) const NIL: u32 = u32::MAX;
/// The side of lower starts.
pub(super) const LEFT: usize = 0;
/// The side of higher (or, in an interval tree, equal) starts.
pub(super) const RIGHT: usize = 1;

/// The rest of a node.
#[derive(Clone, Copy, Debug)]
struct Rest<E> {
    key: u32,
    parent: u32,
    /// Its colour in a red-black tree.
    black: bool,
    /// The largest end of the node and all below it (`__subtree_last`).
    end: E,
}

/// Nodes that hang in one tree; each is named by its place.
#[derive(Clone, Debug)]
pub(super) struct Nodes<E> {
    /// [`Node`]s.
    words: Vec<u64>,
    rest: Vec<Rest<E>>,
    free: Vec<u32>,
    pub(super) root: u32,
    /// Changes since the nodes were put in order.
    changes: usize,
}

impl<E> Default for Nodes<E> {
    fn default() -> Self {
        let (words, rest, free) = (Vec::new(), Vec::new(), Vec::new());
        Self { words, rest, free, root: NIL, changes: 0 }
    }
}

impl<E: End> Nodes<E> {
    #[inline(always)]
    pub(super) fn get(&self, at: u32) -> Option<Node<E>> {
        Node::read(&self.words, at)
    }

    /// Changes a node, if it is one.
    fn change(&mut self, at: u32, change: impl FnOnce(&mut Node<E>)) {
        if let Some(mut node) = self.get(at) {
            change(&mut node);
            node.write(&mut self.words, at);
        }
    }

    /// The number of a node, by which what is not its words is found.
    #[inline(always)]
    fn number(at: u32) -> usize {
        at as usize / E::WORDS
    }

    /// The name of the node with a number.
    fn place_of(number: usize) -> u32 {
        u32::try_from(number * E::WORDS).unwrap_or(NIL)
    }

    /// Has it as many nodes as can be named?
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty() && Self::place_of(self.rest.len() + 1) == NIL
    }

    #[inline(always)]
    fn rest(&self, at: u32) -> Option<&Rest<E>> {
        self.rest.get(Self::number(at))
    }

    pub(super) fn key(&self, at: u32) -> u32 {
        self.rest[Self::number(at)].key
    }

    #[inline(always)]
    pub(super) fn range(&self, at: u32) -> Option<Range> {
        let (node, rest) = (self.get(at)?, self.rest(at)?);
        Some(Range { start: node.start, last: node.last, key: rest.key })
    }

    pub(super) fn weight(&self, at: u32) -> Option<u64> {
        self.get(at).map(|node| node.last - node.start)
    }

    /// Says that a search stands at a node: of it, it reads what lies first.
    #[inline(always)]
    pub(super) fn tell_node(&self, at: u32, observer: &mut impl Observer) {
        observer.read(at as usize * size_of::<u64>(), Node::<E>::BYTES);
    }

    /// Says that a search reads the largest end of a node and all below it.
    #[inline(always)]
    pub(super) fn tell_end(&self, at: u32, observer: &mut impl Observer) {
        observer.read(self.rest_at(at) + offset_of!(Rest<E>, end), size_of::<E>());
    }

    /// Where the rest of a node lies: after all that lies first, in a line of its own.
    #[inline(always)]
    fn rest_at(&self, at: u32) -> usize {
        next_line(size_of_val(self.words.as_slice())) + Self::number(at) * size_of::<Rest<E>>()
    }

    /// Says that a search ends at a node, whose key it reads.
    #[inline(always)]
    pub(super) fn tell_key(&self, at: u32, observer: &mut impl Observer) {
        observer.read(self.rest_at(at) + offset_of!(Rest<E>, key), size_of::<u32>());
    }

    /// The range that holds `addr`, where ranges are disjoint: as `search_memslots`, from the root down
    /// until one does.
    #[inline(always)]
    pub(super) fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        let mut at = self.root;
        while let Some(node) = self.get(at) {
            if O::HEARS {
                observer.visit(self.key(at));
                self.tell_node(at, observer);
            }
            if addr.wrapping_sub(node.start) <= node.last - node.start {
                self.tell_key(at, observer);
                return self.range(at);
            }
            at = node.children.choose(addr < node.start);
        }
        None
    }

    /// The node that starts at `start`.
    pub(super) fn at_start(&self, start: u64) -> Option<u32> {
        let mut at = self.root;
        while let Some(node) = self.get(at) {
            if node.start == start {
                return Some(at);
            }
            at = node.children.choose(start < node.start);
        }
        None
    }

    /// A range of the tree that shares an address with `range`, where ranges are disjoint.
    pub(super) fn overlapping(&self, range: &Range) -> Option<Range> {
        let mut at = self.root;
        while let Some(held) = self.range(at) {
            if held.overlaps(range) {
                return Some(held);
            }
            at = self.child(at, usize::from(range.start > held.start));
        }
        None
    }

    /// The places of the nodes in pre-order.
    pub(super) fn pre_order(&self) -> Vec<u32> {
        let mut out = Vec::with_capacity(self.len());
        let mut open = vec![self.root];
        while let Some(at) = open.pop() {
            if let Some(node) = self.get(at) {
                let [left, right] = node.children.both();
                out.push(at);
                open.extend([right, left]);
            }
        }
        out
    }

    pub(super) fn len(&self) -> usize {
        self.rest.len() - self.free.len()
    }

    pub(super) fn footprint(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
            + self.rest.capacity() * size_of::<Rest<E>>()
            + self.free.capacity() * size_of::<u32>()
    }

    pub(super) fn child(&self, at: u32, side: usize) -> u32 {
        self.get(at).map_or(NIL, |node| node.children.both()[side])
    }

    pub(super) fn parent(&self, at: u32) -> u32 {
        self.rest[Self::number(at)].parent
    }

    /// Leaves are black.
    pub(super) fn is_red(&self, at: u32) -> bool {
        self.rest(at).is_some_and(|rest| !rest.black)
    }

    pub(super) fn paint(&mut self, at: u32, black: bool) {
        self.rest[Self::number(at)].black = black;
    }

    /// Which child of `parent` is `at`?
    pub(super) fn side(&self, parent: u32, at: u32) -> usize {
        usize::from(self.child(parent, RIGHT) == at)
    }

    /// Stores a red node that hangs nowhere, in a freed or a new place.
    pub(super) fn place(&mut self, range: Range) -> u32 {
        self.changes += 1;
        let Range { start, last, key } = range;
        let node = Node { start, last, children: Children::NONE, left_end: E::default() };
        let rest = Rest { key, parent: NIL, black: false, end: E::keep(last) };
        let at = self.free.pop().unwrap_or_else(|| {
            self.words.resize(self.words.len() + E::WORDS, 0);
            self.rest.push(rest);
            Self::place_of(self.rest.len() - 1)
        });
        node.write(&mut self.words, at);
        self.rest[Self::number(at)] = rest;
        at
    }

    /// Frees the place of a node, which must hang nowhere.
    pub(super) fn vacate(&mut self, at: u32) {
        self.changes += 1;
        self.free.push(at);
    }

    /// Hangs `at`, which may be no node, under `parent` on `side`, or as the root.
    pub(super) fn link(&mut self, parent: u32, side: usize, at: u32) {
        if parent == NIL {
            self.root = at;
        }
        self.change(parent, |node| {
            let mut both = node.children.both();
            both[side] = at;
            node.children = Children::new(both);
        });
        if let Some(rest) = self.rest.get_mut(Self::number(at)) {
            rest.parent = parent;
        }
    }

    /// Puts `new` in the place that `old` has under its parent.
    pub(super) fn supplant(&mut self, old: u32, new: u32) {
        let parent = self.parent(old);
        let side = if parent == NIL { LEFT } else { self.side(parent, old) };
        self.link(parent, side, new);
    }

    /// Turns `at` down to `side`; its child on the other side takes its place.
    pub(super) fn rotate(&mut self, at: u32, side: usize) {
        let rises = self.child(at, 1 - side);
        let inner = self.child(rises, side);
        self.supplant(at, rises);
        self.link(at, 1 - side, inner);
        self.link(rises, side, at);
        self.update(at);
        self.update(rises);
    }

    /// The largest end of a node and all below it; 0 where there is none.
    #[inline(always)]
    pub(super) fn end(&self, at: u32) -> u64 {
        self.rest(at).map_or(0, |rest| rest.end.get())
    }

    /// What a node must know of the ends: below its left child, and of all.
    pub(super) fn ends(&self, at: u32) -> [u64; 2] {
        let [left, right] = [LEFT, RIGHT].map(|side| self.end(self.child(at, side)));
        let last = self.get(at).map_or(0, |node| node.last);
        [left, last.max(left).max(right)]
    }

    /// Makes it know that.
    pub(super) fn update(&mut self, at: u32) {
        if E::KEPT {
            let [left, all] = self.ends(at).map(E::keep);
            self.change(at, |node| node.left_end = left);
            self.rest[Self::number(at)].end = all;
        }
    }

    /// The same for a node and all above it.
    pub(super) fn update_up(&mut self, mut at: u32) {
        while E::KEPT && at != NIL {
            self.update(at);
            at = self.parent(at);
        }
    }

    /// Puts the nodes in order, if as many have changed as there are.
    pub(super) fn settle(&mut self) {
        if self.changes > self.len() {
            self.order();
        }
    }

    /// Puts the nodes in order, if any has changed.
    pub(super) fn order(&mut self) {
        if self.changes == 0 {
            return;
        }
        // Parents before children; backwards, sizes add up.
        let before = self.pre_order();
        let mut sizes = vec![1_u32; self.rest.len()];
        for at in before.iter().rev() {
            if let Some(size) = sizes.get(Self::number(*at)).copied()
                && let Some(above) = sizes.get_mut(Self::number(self.parent(*at)))
            {
                *above += size;
            }
        }
        let mut places = Vec::with_capacity(self.len());
        let mut new = vec![NIL; self.rest.len()];
        let mut open = vec![self.root];
        while let Some(at) = open.pop() {
            let Some(node) = self.get(at) else { continue };
            new[Self::number(at)] = Self::place_of(places.len());
            places.push(at);
            let size = |at: u32| sizes.get(Self::number(at)).copied().unwrap_or(0);
            let [left, right] = node.children.both();
            open.extend(if size(left) > size(right) { [right, left] } else { [left, right] });
        }
        let moved = |at: u32| new.get(Self::number(at)).copied().unwrap_or(NIL);
        let mut words = vec![0; places.len() * E::WORDS];
        let mut rest = Vec::with_capacity(places.len());
        for at in places {
            let own = self.rest[Self::number(at)];
            rest.push(Rest { parent: moved(own.parent), ..own });
            if let Some(node) = self.get(at) {
                let children = Children::new(node.children.both().map(moved));
                Node { children, ..node }.write(&mut words, moved(at));
            }
        }
        (self.words, self.rest) = (words, rest);
        self.root = moved(self.root);
        self.free = Vec::new();
        self.changes = 0;
    }
}

const _: () = assert!(LEFT == 0 && RIGHT == 1, "a comparison gives the side");
const _: () = assert!(Node::<()>::BYTES * 8 == LINE * 3 && Node::<u64>::BYTES * 2 == LINE);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{DynamicEngine, Engine, IntervalTree, RbTree, WbTree};

    /// Inserts ranges of distinct sizes in an order that is neither ascending nor random.
    fn ranges(count: u32) -> Vec<Range> {
        let start = |key: u32| u64::from(key * 389 % count) * 5000;
        (0..count).map(|key| Range { start: start(key), last: start(key) + u64::from(key), key }).collect()
    }

    #[test]
    fn after_an_order_the_larger_child_is_the_neighbour() {
        let mut nodes = Nodes::<()>::default();
        // A list to the right, with a leaf at the left of each node.
        let place = |nodes: &mut Nodes<()>, key: u32| {
            nodes.place(Range { start: u64::from(key), last: u64::from(key), key })
        };
        let leaves: Vec<u32> = (0..10).map(|key| place(&mut nodes, key * 2)).collect();
        let mut above = NIL;
        for (key, leaf) in (0..).zip(leaves) {
            let at = place(&mut nodes, key * 2 + 1);
            nodes.link(above, RIGHT, at);
            nodes.link(at, LEFT, leaf);
            above = at;
        }
        let keys =
            |nodes: &Nodes<()>| nodes.pre_order().into_iter().map(|at| nodes.key(at)).collect::<Vec<_>>();
        let before = keys(&nodes);
        nodes.order();
        assert_eq!(keys(&nodes), before, "the shape stays");
        assert_eq!(nodes.root, 0);
        let mut at = nodes.root;
        for place in 0..9 {
            assert_eq!(nodes.child(at, RIGHT), Nodes::<()>::place_of(place + 1));
            at = nodes.child(at, RIGHT);
        }
        assert_eq!(nodes.parent(nodes.child(at, LEFT)), at);
    }

    #[test]
    fn changes_leave_answers_and_counts_and_restore_the_order_in_time() {
        fn holds<E: DynamicEngine>() {
            let all = ranges(600);
            let built = E::build(&all).unwrap();
            let mut grown = E::build(&[]).unwrap();
            all.iter().for_each(|range| grown.insert(*range).unwrap());
            let same = |one: &E, other: &E| {
                one.validate().unwrap();
                for range in &all {
                    for addr in [range.start, range.last, range.last + 1] {
                        let (one, other) = (one.find_counted(addr), other.find_counted(addr));
                        assert_eq!((one.found, one.length), (other.found, other.length), "{}", E::ID.name());
                    }
                }
            };
            same(&grown, &built);
            // Half of them go and come again.
            let most = grown.footprint();
            for range in all.iter().step_by(2) {
                assert_eq!(grown.remove(range.start), Some(*range));
            }
            grown.validate().unwrap();
            for range in all.iter().step_by(2) {
                grown.insert(*range).unwrap();
            }
            grown.validate().unwrap();
            assert!(grown.footprint() <= 2 * most, "{}: freed places are used again", E::ID.name());
            if E::ID == WbTree::ID {
                // Of distinct weights there is but one shape.
                same(&grown, &built);
            }
        }
        holds::<RbTree>();
        holds::<IntervalTree>();
        holds::<WbTree>();
    }
}
