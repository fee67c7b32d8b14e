//! The last-used slot in front of an engine, as `kvm_vcpu_gfn_to_memslot` has it.

use super::{BuildError, Engine, InvariantError, Lines, Observer, Range, Search};
use crate::model::SearchLength;
use std::cell::Cell;

/// Asks `last_used` first, then `engine`; counts as the kernel's search does. An answer of the
/// last-used slot visits no node and touches one; otherwise the slot asked in vain counts as touched,
/// unless the search meets it again; so does its cache line.
pub fn search_with_last_used<E: Engine>(engine: &E, addr: u64, last_used: Option<Range>) -> Search {
    let Some(last_used) = last_used else { return engine.find_counted(addr) };
    if last_used.contains(addr) {
        return Search {
            found: Some(last_used.key),
            length: SearchLength { visited: 0, touched: 1 },
            lines: 1,
        };
    }
    let mut way = Way {
        length: SearchLength::default(),
        lines: Lines::default(),
        last_used: last_used.key,
        met: false,
    };
    let found = engine.search(addr, &mut way).map(|range| range.key);
    let asked = u32::from(!way.met);
    way.length.touched += asked;
    Search { found, length: way.length, lines: way.lines.count() + asked }
}

/// Counts, and sees whether the last-used slot is met.
struct Way {
    length: SearchLength,
    lines: Lines,
    last_used: u32,
    met: bool,
}

impl Observer for Way {
    fn visit(&mut self, key: u32) {
        self.length.visit(key);
        self.met |= key == self.last_used;
    }
    fn touch(&mut self, key: u32) {
        self.length.touch(key);
        self.met |= key == self.last_used;
    }
    fn read(&mut self, first: usize, bytes: usize) {
        self.lines.read(first, bytes);
    }
}

/// An engine with one vCPU's last-used range in front.
#[derive(Clone, Debug)]
pub struct LastUsed<E> {
    engine: E,
    last_used: Cell<Option<Range>>,
}

impl<E: Engine> LastUsed<E> {
    /// Puts an empty cache in front of `engine`.
    #[must_use]
    pub fn new(engine: E) -> Self {
        Self { engine, last_used: Cell::new(None) }
    }

    /// The range that answers without a search.
    #[must_use]
    pub fn last_used(&self) -> Option<Range> {
        self.last_used.get()
    }

    /// Forgets it: the generation has changed.
    pub fn invalidate(&self) {
        self.last_used.set(None);
    }

    /// The engine behind.
    pub fn engine(&self) -> &E {
        &self.engine
    }
}

impl<E: Engine> Engine for LastUsed<E> {
    const ID: super::EngineId = E::ID;

    fn build(ranges: &[Range]) -> Result<Self, BuildError> {
        Ok(Self::new(E::build(ranges)?))
    }

    #[inline]
    fn search<O: Observer>(&self, addr: u64, observer: &mut O) -> Option<Range> {
        if let Some(range) = self.last_used.get().filter(|range| range.contains(addr)) {
            observer.touch(range.key);
            return Some(range);
        }
        // As in the kernel, a search in vain leaves the last-used slot as it was.
        let found = self.engine.search(addr, observer)?;
        self.last_used.set(Some(found));
        Some(found)
    }

    fn find_counted(&self, addr: u64) -> Search {
        let search = search_with_last_used(&self.engine, addr, self.last_used.get());
        self.search(addr, &mut ());
        search
    }

    fn validate(&self) -> Result<(), InvariantError> {
        self.engine.validate()
    }

    fn len(&self) -> usize {
        self.engine.len()
    }

    fn footprint(&self) -> usize {
        self.engine.footprint() + size_of::<Option<Range>>()
    }
}
