//! The counters: per CPU, so that they need no atomics and lose nothing.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use memslot_common::account::{SUBJECTS, count, probe, row};

#[map]
static COUNTERS: PerCpuArray<[u64; count::COUNT]> = PerCpuArray::with_max_entries(probe::COUNT * SUBJECTS, 0);

/// This CPU's counters of one probe and subject.
pub struct Row(&'static mut [u64; count::COUNT]);

impl Row {
    #[inline(always)]
    pub fn of(probe: u32, subject: u32) -> Option<Self> {
        let row = COUNTERS.get_ptr_mut(row(probe, subject))?;
        // SAFETY: the verifier knows the pointer as a live map value of this CPU. Only under full preemption
        // could another task's program come between a read and a write, and a count would be off by one.
        unsafe { row.as_mut() }.map(Self)
    }

    /// Counts one and tells how many this CPU had counted before.
    #[inline(always)]
    pub fn add(&mut self, count: usize) -> u64 {
        let before = self.0[count];
        self.0[count] = before + 1;
        before
    }
}

/// Counts one and tells how many this CPU had counted before.
#[inline(always)]
pub fn add(probe: u32, subject: u32, count: usize) -> u64 {
    Row::of(probe, subject).map_or(0, |mut row| row.add(count))
}
