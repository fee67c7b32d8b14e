//! The counters: per CPU, so that they need no atomics and lose nothing.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use memslot_common::account::{count, index, probe};

#[map]
static COUNTERS: PerCpuArray<u64> = PerCpuArray::with_max_entries(probe::COUNT * count::COUNT, 0);

/// Counts one and tells how many this CPU had counted before.
#[inline(always)]
pub fn add(probe: u32, count: u32) -> u64 {
    let Some(counter) = COUNTERS.get_ptr_mut(index(probe, count)) else { return 0 };
    // SAFETY: the verifier knows the pointer as a live map value of this CPU. Only under full preemption
    // could another task's program come between the read and the write, and a count would be off by one.
    unsafe {
        let before = *counter;
        *counter = before + 1;
        before
    }
}
