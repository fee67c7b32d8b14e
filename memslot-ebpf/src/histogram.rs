//! The histograms: per CPU, so that they need no atomics and stay complete when events are lost.
//!
//! A hash table of our own in a per-CPU array: updating the kernel's hash was measured at 140
//! instructions more, and its insertion can fail while other entries are free. A key may lie in either of two elements
//! of 8 entries each; no entry is ever removed.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use memslot_common::histogram::{Entry, WAYS, places};

/// The user side sets the number of elements when it loads the object.
#[map]
static HISTOGRAM: PerCpuArray<[Entry; WAYS]> = PerCpuArray::with_max_entries(4096, 0);

/// Counts a value under its key; false where neither element has room.
#[inline(always)]
pub fn add(key: u64, value: u64, mask: u32) -> bool {
    let places = places(key, mask);
    add_at(places[0], key, value) || add_at(places[1], key, value)
}

#[inline(always)]
fn add_at(place: u32, key: u64, value: u64) -> bool {
    let Some(entries) = HISTOGRAM.get_ptr_mut(place) else { return false };
    // SAFETY: the verifier knows the pointer as a live map value of this CPU; see `account` for preemption.
    let Some(entries) = (unsafe { entries.as_mut() }) else { return false };
    let mut way = 0;
    while way < WAYS {
        let entry = &mut entries[way];
        if entry.key == key {
            entry.count += 1;
            entry.sum += value;
            return true;
        }
        if entry.key == 0 {
            entry.key = key;
            entry.count = 1;
            entry.sum = value;
            return true;
        }
        way += 1;
    }
    false
}
