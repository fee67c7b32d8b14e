//! The engines of a layout, built once and kept while they are in use.

use super::engines::{Built, KernelTree};
use crate::engine::{Engine, EngineId, Linear, Range};
use std::rc::Rc;

/// Layouts whose engines are kept.
const MOST_LAYOUTS: usize = 64;
/// Ranges of all of them together: what bounds the memory where layouts are large.
pub(super) const MOST_RANGES: usize = 1 << 17;

/// Which layout: of a VM's address space or of a table, after so many steps.
pub(super) type Key = (u32, u16, usize);

/// A layout's engines.
#[derive(Debug)]
pub(super) struct Prepared {
    /// In the order in which they were asked for; none where it cannot be built.
    pub(super) engines: Vec<Option<Built>>,
    /// What they are checked against.
    pub(super) oracle: Option<Linear>,
    /// Ranges of the layout.
    pub(super) ranges: usize,
}

impl Prepared {
    pub(super) fn new(engines: &[EngineId], ranges: &[Range], kernel: KernelTree<'_>) -> Self {
        Self {
            engines: engines.iter().map(|id| Built::new(*id, ranges, kernel).ok()).collect(),
            oracle: Linear::build(ranges).ok(),
            ranges: ranges.len(),
        }
    }
}

/// Keeps those that were used last.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// The last used one last.
    held: Vec<(Key, Rc<Prepared>)>,
}

impl Store {
    /// The engines of a layout, which `build` makes if they are not at hand.
    pub(super) fn get(&mut self, key: Key, build: impl FnOnce() -> Prepared) -> Rc<Prepared> {
        let held = self.held.iter().rposition(|held| held.0 == key).map(|place| self.held.remove(place).1);
        let prepared = held.unwrap_or_else(|| Rc::new(build()));
        self.held.push((key, Rc::clone(&prepared)));
        let mut ranges: usize = self.held.iter().map(|held| held.1.ranges).sum();
        while self.held.len() > 1 && (self.held.len() > MOST_LAYOUTS || ranges > MOST_RANGES) {
            ranges -= self.held.remove(0).1.ranges;
        }
        prepared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let mut store = Store::default();
        let mut built = 0;
        let mut get = |step, ranges| {
            store.get((0, 0, step), || {
                built += 1;
                Prepared { engines: Vec::new(), oracle: None, ranges }
            });
            built
        };
        (0..MOST_LAYOUTS).for_each(|step| assert_eq!(get(step, 10), step + 1));
        assert_eq!(get(0, 10), 64, "at hand");
        assert_eq!(get(100, 10), 65, "in the place of number 1");
        assert_eq!((get(0, 10), get(1, 10)), (65, 66));
        assert_eq!(get(200, MOST_RANGES), 67, "so large that the others go");
        assert_eq!((get(200, 0), get(1, 10)), (67, 68));
    }
}
