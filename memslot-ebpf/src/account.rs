//! The counters: per CPU, so that no two CPUs ever wait for one another's.
//!
//! Each is added to in one instruction all the same: on a kernel with full or lazy preemption another task's program
//! may come between a read and a write on the same CPU, and a count would be lost.

use crate::atomic::Word;
use aya_ebpf::{macros::map, maps::PerCpuArray};
use memslot_common::account::{SUBJECTS, count, probe, row};

#[map]
static COUNTERS: PerCpuArray<[Word; count::COUNT]> =
    PerCpuArray::with_max_entries(probe::COUNT * SUBJECTS, 0);

/// This CPU's counters of one probe and subject.
pub struct Row(&'static [Word; count::COUNT]);

impl Row {
    #[inline(always)]
    pub fn of(probe: u32, subject: u32) -> Option<Self> {
        let row = COUNTERS.get_ptr_mut(row(probe, subject))?;
        // SAFETY: the verifier knows the pointer as a live map value, which the programs only use atomically.
        unsafe { row.as_ref() }.map(Self)
    }

    /// Counts one and tells how many this CPU had counted before, or about so many.
    #[inline(always)]
    pub fn add(&self, count: usize) -> u64 {
        let before = self.0[count].get();
        self.0[count].add(1);
        before
    }
}

/// Counts one and tells how many this CPU had counted before.
#[inline(always)]
pub fn add(probe: u32, subject: u32, count: usize) -> u64 {
    Row::of(probe, subject).map_or(0, |row| row.add(count))
}
