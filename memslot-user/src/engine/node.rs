//! What a search reads of a tree's node, as words in a row.
//!
//! A node is named by the place of its first word. A struct would be named by its number, and a search
//! would multiply that by the size on every level, between one load and the next: 2 of the 10 cycles
//! that a level costs.

use super::nodes::NIL;
use std::fmt::Debug;
use std::hint::select_unpredictable;

/// The largest end of the ranges in a subtree: a number in vhost's tree, nothing in the others.
pub(super) trait End: Copy + Default + Debug {
    /// Is it kept?
    const KEPT: bool;
    /// Words of a node.
    const WORDS: usize;
    /// What is kept of an end.
    fn keep(end: u64) -> Self;
    /// The end; 0 where none is kept.
    fn get(self) -> u64;
    /// What is kept in a node's words.
    fn of(words: &[u64]) -> Self;
}

impl End for () {
    const KEPT: bool = false;
    const WORDS: usize = 3;
    fn keep(_end: u64) {}
    fn get(self) -> u64 {
        0
    }
    #[inline(always)]
    fn of(_words: &[u64]) {}
}

impl End for u64 {
    const KEPT: bool = true;
    const WORDS: usize = 4;
    fn keep(end: u64) -> Self {
        end
    }
    #[inline(always)]
    fn get(self) -> u64 {
        self
    }
    #[inline(always)]
    fn of(words: &[u64]) -> Self {
        words[3]
    }
}

/// The two children of a node, in one word: of two, the compiler would read one, and that only after
/// the comparison that chooses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Children(u64);

impl Children {
    pub(super) const NONE: Self = Self::new([NIL; 2]);

    pub(super) const fn new([left, right]: [u32; 2]) -> Self {
        Self(left as u64 | (right as u64) << 32)
    }

    /// Left and right.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "two halves")]
    pub(super) fn both(self) -> [u32; 2] {
        [self.0 as u32, (self.0 >> 32) as u32]
    }

    /// The left one or the right one, taken without a branch, so that no guess of the side can be wrong.
    #[inline(always)]
    pub(super) fn choose(self, left: bool) -> u32 {
        let [first, second] = self.both();
        select_unpredictable(left, first, second)
    }
}

/// What a search reads of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node<E> {
    pub(super) start: u64,
    pub(super) last: u64,
    pub(super) children: Children,
    /// The largest end below the left child, 0 without one. The kernel reads it in that child; kept
    /// here it is the same number, and a child that is rejected need not be read.
    pub(super) left_end: E,
}

impl<E: End> Node<E> {
    /// Bytes of a node.
    pub(super) const BYTES: usize = E::WORDS * size_of::<u64>();

    /// The node whose words begin at `at`; none there, where the words end.
    #[inline(always)]
    pub(super) fn read(words: &[u64], at: u32) -> Option<Self> {
        let at = at as usize;
        let words = words.get(at..at + E::WORDS)?;
        Some(Self { start: words[0], last: words[1], children: Children(words[2]), left_end: E::of(words) })
    }

    /// Puts it where its words begin at `at`; nowhere, where the words end.
    pub(super) fn write(self, words: &mut [u64], at: u32) {
        let own = [self.start, self.last, self.children.0, self.left_end.get()];
        let at = at as usize;
        if let Some(words) = words.get_mut(at..at + E::WORDS) {
            words.copy_from_slice(&own[..E::WORDS]);
        }
    }
}
