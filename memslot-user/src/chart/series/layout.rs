//! Slots along the guest's addresses: where each lies on a strip on which wide gaps are cut short.

use crate::digest::{Digest, Slots};
use crate::model::{Memslot, VmId};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Pieces of a strip at most.
const MOST_PIECES: usize = 12;
/// Share of the strip that a gap takes, and the least that a piece takes.
const GAP: f64 = 0.012;
const LEAST: f64 = 0.035;

/// A run of slots without wide gaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece {
    /// First address, and the first after it.
    pub(crate) addresses: (u64, u64),
    /// Where it lies, as shares of the strip.
    pub(crate) shares: (f64, f64),
}

/// The slots of an address space.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Map {
    pub(crate) heading: String,
    /// By address, with their accesses.
    pub(crate) slots: Vec<(Memslot, u64)>,
    pub(crate) pieces: Vec<Piece>,
    /// Accesses to all slots.
    pub(crate) accesses: u64,
    /// Accesses that found none.
    pub(crate) no_slot: u64,
    /// Bytes covered.
    pub(crate) bytes: u64,
    /// Slots moved or deleted meanwhile.
    pub(crate) removals: u64,
}

/// Begin and end of a slot in bytes.
fn extent(slot: &Memslot) -> (u64, u64) {
    let from = slot.base_gfn.0.saturating_mul(PAGE);
    (from, from.saturating_add(slot.npages.saturating_mul(PAGE)))
}

impl Map {
    fn new(heading: String, slots: &Slots) -> Option<Self> {
        let all = slots.largest();
        if all.is_empty() {
            return None;
        }
        let bytes = all.iter().map(|(slot, _)| slot.npages.saturating_mul(PAGE)).fold(0, u64::saturating_add);
        Some(Self {
            heading,
            pieces: pieces(&all, bytes),
            accesses: all.iter().map(|(_, accesses)| accesses).sum(),
            slots: all,
            no_slot: slots.no_slot,
            bytes,
            removals: slots.removals,
        })
    }

    /// Where a slot lies, as shares of the strip.
    pub(crate) fn place(&self, slot: &Memslot) -> (f64, f64) {
        let (from, to) = extent(slot);
        let place = |address: u64| {
            let piece = self.pieces.iter().rev().find(|piece| piece.addresses.0 <= address);
            piece.or(self.pieces.first()).map_or(0.0, |piece| piece.share(address))
        };
        // The end of the slot is in its own piece, whatever begins there.
        let begin = place(from);
        let piece = self.pieces.iter().rev().find(|piece| piece.addresses.0 <= from);
        (begin, piece.map_or(begin, |piece| piece.share(to)))
    }
}

impl Piece {
    #[expect(clippy::cast_precision_loss, reason = "a place on a strip")]
    fn share(&self, address: u64) -> f64 {
        let (from, to) = self.addresses;
        let part = address.saturating_sub(from) as f64 / (to.saturating_sub(from)).max(1) as f64;
        self.shares.0 + (self.shares.1 - self.shares.0) * part.clamp(0.0, 1.0)
    }
}

/// Runs of slots; gaps wider than a share of what is covered part them, wider ones where there would be
/// too many.
fn pieces(slots: &[(Memslot, u64)], bytes: u64) -> Vec<Piece> {
    let mut widest = (bytes / 24).max(PAGE);
    let runs = loop {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (from, to) in slots.iter().map(|(slot, _)| extent(slot)) {
            match runs.last_mut() {
                Some(last) if from.saturating_sub(last.1) <= widest => last.1 = last.1.max(to),
                _ => runs.push((from, to)),
            }
        }
        if runs.len() <= MOST_PIECES {
            break runs;
        }
        widest = widest.saturating_mul(2);
    };
    shares(&runs)
}

#[expect(clippy::cast_precision_loss, reason = "places on a strip")]
fn shares(runs: &[(u64, u64)]) -> Vec<Piece> {
    let count = runs.len() as f64;
    let room = 1.0 - GAP * (count - 1.0) - LEAST * count;
    let total: f64 = runs.iter().map(|(from, to)| (to - from) as f64).sum::<f64>().max(1.0);
    let mut at = 0.0;
    runs.iter()
        .map(|(from, to)| {
            let width = LEAST + room * (to - from) as f64 / total;
            let piece = Piece { addresses: (*from, *to), shares: (at, at + width) };
            at += width + GAP;
            piece
        })
        .collect()
}

/// A strip for each VM and address space of the recordings.
pub(crate) fn series(digests: &[&Digest]) -> Vec<Map> {
    let mut maps = Vec::new();
    for digest in digests {
        for ((vm, as_id), slots) in &digest.layouts {
            maps.extend(Map::new(heading(digest, *vm, *as_id), slots));
        }
    }
    maps
}

fn heading(digest: &Digest, vm: VmId, as_id: u16) -> String {
    let mut heading = digest.label.clone();
    let named = digest.meta.vms.iter().find(|meta| meta.vm == vm).filter(|meta| !meta.name.is_empty());
    let several = digest.layouts.keys().any(|key| key.0 != vm);
    match named {
        Some(named) => heading += &format!(", VM {} ({})", vm.0, named.name),
        None if several => heading += &format!(", VM {}", vm.0),
        None => {}
    }
    if as_id > 0 {
        heading += ", SMM's address space";
    }
    heading
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Gfn;
    use proptest::prelude::*;

    fn map(slots: &[(u64, u64)]) -> Map {
        let slots = (0..).zip(slots).map(|(id, (base, npages))| {
            (Memslot { id, base_gfn: Gfn(*base), npages: *npages }, u64::from(id.unsigned_abs()))
        });
        let all: Vec<_> = slots.collect();
        let bytes = all.iter().map(|(slot, _)| slot.npages * PAGE).sum();
        Map {
            heading: String::new(),
            pieces: pieces(&all, bytes),
            slots: all,
            accesses: 0,
            no_slot: 0,
            bytes,
            removals: 0,
        }
    }

    #[test]
    fn a_wide_gap_is_cut_short_and_a_narrow_one_is_not() {
        // 640 KiB, a gap to 1 MiB, RAM to 3 GiB, RAM from 4 GiB on, a BAR far above.
        let map = map(&[(0, 160), (256, 0xbff00), (0x10_0000, 0x4_0000), (0x3800_0000, 16)]);
        let pieces: Vec<_> = map.pieces.iter().map(|piece| piece.addresses.0 / PAGE).collect();
        assert_eq!(pieces, [0, 0x10_0000, 0x3800_0000]);
        let bar = map.place(&map.slots[3].0);
        assert!(bar.1 - bar.0 > 0.03 && bar.1 <= 1.0 + 1e-9, "{bar:?}");
        let ram = map.place(&map.slots[1].0);
        assert!(ram.1 - ram.0 > 0.5, "{ram:?}");
    }

    #[test]
    fn one_slot_fills_the_strip() {
        let map = map(&[(100, 1)]);
        assert_eq!(map.place(&map.slots[0].0), (0.0, 1.0));
    }

    proptest! {
        #[test]
        fn slots_lie_in_order_and_never_overlap(gaps in prop::collection::vec((0_u64..1 << 30, 1_u64..1 << 22), 1..200)) {
            let mut at = 0;
            let slots: Vec<(u64, u64)> = gaps.iter().map(|(gap, npages)| {
                let base = at + gap;
                at = base + npages;
                (base, *npages)
            }).collect();
            let map = map(&slots);
            prop_assert!(map.pieces.len() <= MOST_PIECES);
            let mut last = 0.0;
            for (slot, _) in &map.slots {
                let (from, to) = map.place(slot);
                prop_assert!(from >= last - 1e-9 && to >= from && to <= 1.0 + 1e-9, "{from} {to} {last}");
                last = to;
            }
        }
    }
}
