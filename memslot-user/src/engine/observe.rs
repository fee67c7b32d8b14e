//! What a search tells: the nodes that it stands at, those that it only reads, and the memory of both.

use crate::model::SearchLength;

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// The first byte of the line at or after `byte`.
pub(super) fn next_line(byte: usize) -> usize {
    byte.next_multiple_of(LINE)
}

/// Told of every node that a search reads. `()` hears nothing and costs nothing.
pub trait Observer {
    /// Does it hear anything? Where not, an engine may leave out what only serves to tell.
    const HEARS: bool = true;
    /// The search stands at the node of this key.
    fn visit(&mut self, key: u32);
    /// It reads a node that it does not, and will not, stand at; told once a node.
    fn touch(&mut self, key: u32);
    /// It reads so many bytes of the engine's memory from this one on. Bytes are numbered array after
    /// array, each of which begins a line.
    #[inline(always)]
    fn read(&mut self, _first: usize, _bytes: usize) {}
}

impl Observer for () {
    const HEARS: bool = false;
    #[inline(always)]
    fn visit(&mut self, _key: u32) {}
    #[inline(always)]
    fn touch(&mut self, _key: u32) {}
}

impl Observer for SearchLength {
    #[inline]
    fn visit(&mut self, _key: u32) {
        self.visited += 1;
        self.touched += 1;
    }
    #[inline]
    fn touch(&mut self, _key: u32) {
        self.touched += 1;
    }
}

/// Lines that are noted without an allocation.
const NEAR: usize = 48;

/// Counts distinct cache lines.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    near: [usize; NEAR],
    held: usize,
    far: Vec<usize>,
}

impl Default for Lines {
    fn default() -> Self {
        Self { near: [0; NEAR], held: 0, far: Vec::new() }
    }
}

impl Lines {
    /// Notes the lines of so many bytes.
    pub(super) fn read(&mut self, first: usize, bytes: usize) {
        for line in first / LINE..(first + bytes).div_ceil(LINE) {
            if self.near[..self.held].contains(&line) {
                continue;
            }
            match self.near.get_mut(self.held) {
                Some(place) => {
                    *place = line;
                    self.held += 1;
                }
                None => self.far.push(line),
            }
        }
    }

    /// How many there were.
    pub(super) fn count(mut self) -> u32 {
        self.far.sort_unstable();
        self.far.dedup();
        u32::try_from(self.held + self.far.len()).unwrap_or(u32::MAX)
    }
}

/// Counts nodes and lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub(super) length: SearchLength,
    pub(super) lines: Lines,
}

impl Observer for Counted {
    fn visit(&mut self, key: u32) {
        self.length.visit(key);
    }
    fn touch(&mut self, key: u32) {
        self.length.touch(key);
    }
    fn read(&mut self, first: usize, bytes: usize) {
        self.lines.read(first, bytes);
    }
}
