//! The histograms: per CPU, so that no two CPUs wait for one another, and complete when events are lost.
//!
//! A hash table of our own in a per-CPU array: updating the kernel's hash was measured at 140
//! instructions more, and its insertion can fail while other entries are free. A key may lie in either of two elements
//! of 8 entries each; no entry is ever removed. Entries are taken and added to atomically, since another task's
//! program may come between on the same CPU where the kernel is preemptible.

use crate::atomic::Word;
use aya_ebpf::{macros::map, maps::PerCpuArray};
use memslot_common::histogram::{Entry, WAYS, places};

/// An [`Entry`] as the programs use it.
#[repr(C)]
struct Cell {
    key: Word,
    count: Word,
    sum: Word,
}

const _: () = assert!(size_of::<Cell>() == size_of::<Entry>());

/// The user side sets the number of elements when it loads the object.
#[map]
static HISTOGRAM: PerCpuArray<[Cell; WAYS]> = PerCpuArray::with_max_entries(4096, 0);

/// Counts a value under its key; false where neither element has room.
#[inline(always)]
pub fn add(key: u64, value: u64, mask: u32) -> bool {
    let places = places(key, mask);
    add_at(places[0], key, value) || add_at(places[1], key, value)
}

#[inline(always)]
fn add_at(place: u32, key: u64, value: u64) -> bool {
    let Some(cells) = HISTOGRAM.get_ptr_mut(place) else { return false };
    // SAFETY: the verifier knows the pointer as a live map value, which the programs only use atomically.
    let Some(cells) = (unsafe { cells.as_ref() }) else { return false };
    let mut way = 0;
    while way < WAYS {
        let cell = &cells[way];
        let mut found = cell.key.get();
        if found == 0 {
            found = cell.key.put_where_zero(key);
        }
        if found == key || found == 0 {
            cell.count.add(1);
            cell.sum.add(value);
            return true;
        }
        way += 1;
    }
    false
}
