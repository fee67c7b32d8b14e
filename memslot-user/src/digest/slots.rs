//! The slots of an address space of a VM, and how often each was accessed.

use crate::model::{Memslot, SlotChange, SlotChangeKind};
use std::collections::BTreeMap;

/// Slot ids that are counted; KVM has no more than 32,764 of the user's and three of its own.
const MOST_IDS: usize = 1 << 16;

/// The slots of one address space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    live: BTreeMap<i32, Memslot>,
    /// As they stood when there were the most of them, if that was before the last change.
    most: BTreeMap<i32, Memslot>,
    accesses: Vec<u64>,
    /// Faults that found no slot.
    pub no_slot: u64,
    /// Slots that were moved or deleted.
    pub removals: u64,
}

impl Slots {
    /// Takes one change, in order of time.
    pub(super) fn change(&mut self, change: &SlotChange) {
        let slot = change.slot;
        match change.kind {
            SlotChangeKind::Delete | SlotChangeKind::Move { .. } => {
                self.removals += 1;
                // Only what takes away ends a layout that may have been the largest.
                if self.live.len() > self.most.len() {
                    self.most.clone_from(&self.live);
                }
                if change.kind == SlotChangeKind::Delete {
                    self.live.remove(&slot.id);
                } else {
                    self.live.insert(slot.id, slot);
                }
            }
            SlotChangeKind::Snapshot { order, .. } => {
                if order == 0 {
                    self.live.clear();
                }
                self.live.insert(slot.id, slot);
            }
            SlotChangeKind::Create | SlotChangeKind::Flags => {
                self.live.insert(slot.id, slot);
            }
        }
    }

    /// Takes one access by the slot that covers it.
    pub(super) fn access(&mut self, slot: i32) {
        let Some(id) = usize::try_from(slot).ok().filter(|id| *id < MOST_IDS) else { return };
        if id >= self.accesses.len() {
            self.accesses.resize(id + 1, 0);
        }
        if let Some(accesses) = self.accesses.get_mut(id) {
            *accesses += 1;
        }
    }

    /// Slots now.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// The slots as they stood when there were the most of them, by address, with the accesses that each
    /// had over the whole recording.
    #[must_use]
    pub fn largest(&self) -> Vec<(Memslot, u64)> {
        let slots = if self.live.len() >= self.most.len() { &self.live } else { &self.most };
        let of = |id: i32| usize::try_from(id).ok().and_then(|id| self.accesses.get(id)).copied();
        let mut slots: Vec<_> = slots.values().map(|slot| (*slot, of(slot.id).unwrap_or(0))).collect();
        slots.sort_by_key(|(slot, _)| slot.base_gfn);
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Gfn, VmId};

    fn change(kind: SlotChangeKind, id: i32, base: u64) -> SlotChange {
        SlotChange {
            time: 0,
            vm: VmId(0),
            as_id: 0,
            generation: 2,
            kind,
            slot: Memslot { id, base_gfn: Gfn(base), npages: 16 },
            flags: 0,
            hva: 0,
        }
    }

    #[test]
    fn the_largest_layout_is_kept_however_it_ends() {
        let mut slots = Slots::default();
        for id in 0..4 {
            slots.change(&change(SlotChangeKind::Create, id, 1000 - 20 * u64::from(id.unsigned_abs())));
        }
        slots.access(3);
        slots.access(3);
        slots.access(-1);
        for id in 0..4 {
            slots.change(&change(SlotChangeKind::Delete, id, 0));
        }
        let largest: Vec<_> = slots.largest().iter().map(|(slot, accesses)| (slot.id, *accesses)).collect();
        assert_eq!(largest, [(3, 2), (2, 0), (1, 0), (0, 0)], "by address");
        assert_eq!((slots.live(), slots.removals), (0, 4));
    }

    #[test]
    fn a_moved_slot_lies_where_it_went() {
        let mut slots = Slots::default();
        slots.change(&change(SlotChangeKind::Create, 1, 16));
        slots.change(&change(SlotChangeKind::Move { old_base_gfn: Gfn(16) }, 1, 64));
        assert_eq!(slots.largest().first().map(|(slot, _)| slot.base_gfn), Some(Gfn(64)));
    }
}
