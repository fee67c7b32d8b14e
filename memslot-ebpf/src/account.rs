//! The counters: per CPU, so that they need no atomics and lose nothing.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use memslot_common::account::{count, index, probe};

#[map]
static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(probe::COUNT * count::COUNT, 0);

/// Counts one and tells how many this CPU had counted before.
#[inline(always)]
pub fn add(probe: u32, count: u32) -> u64 {
    let Some(counter) = COUNTERS.get_ptr_mut(index(probe, count)) else { return 0 };
    // SAFETY: the verifier knows the pointer as a live map value; it is this CPU's own, and
    // programs of one CPU do not preempt each other between the read and the write.
    unsafe {
        let before = *counter;
        *counter = before + 1;
        before
    }
}
