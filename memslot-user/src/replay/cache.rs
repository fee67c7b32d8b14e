//! Last-used ranges as a replay keeps them: one for each asker, void once the generation is another.

use crate::engine::Range;
use std::collections::BTreeMap;

/// The caches of all askers: vCPUs, VMs, queues.
#[derive(Debug, Default)]
pub(super) struct Caches<K> {
    held: BTreeMap<K, (u64, Option<Range>)>,
}

impl<K: Ord> Caches<K> {
    /// The range that the asker found last, as `kvm_vcpu_gfn_to_memslot` has it: another generation
    /// than that of the last question makes it forget.
    pub(super) fn held(&mut self, who: K, generation: u64) -> &mut Option<Range> {
        let (of, range) = self.held.entry(who).or_insert((generation, None));
        if *of != generation {
            (*of, *range) = (generation, None);
        }
        range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_asker_remembers_until_the_generation_changes() {
        let mut caches = Caches::default();
        let range = Range { start: 10, last: 19, key: 0 };
        assert_eq!(*caches.held("a", 2), None);
        *caches.held("a", 2) = Some(range);
        assert_eq!((*caches.held("a", 2), *caches.held("b", 2)), (Some(range), None));
        assert_eq!(*caches.held("a", 4), None);
        assert_eq!(*caches.held("a", 2), None, "a generation that comes again finds nothing");
    }
}
