//! The kernel-side counters, summed over CPUs.

use super::Probes;
use crate::{model::Probe, recording::Account};
use aya::maps::{MapError, PerCpuArray};
use memslot_common::account::{count, index, probe};

/// Row of a probe's counters.
fn row(wanted: Probe) -> u32 {
    match wanted {
        Probe::PageFault => probe::PAGE_FAULT,
        Probe::Ple => probe::PLE,
        Probe::Translate => probe::TRANSLATE,
    }
}

fn read(probes: &Probes, row: u32, missed: u64) -> Result<Account, MapError> {
    let Some(map) = probes.ebpf().map("COUNTERS") else { return Ok(Account::default()) };
    let counters: PerCpuArray<_, u64> = PerCpuArray::try_from(map)?;
    let sum =
        |column: u32| -> Result<u64, MapError> { Ok(counters.get(&index(row, column), 0)?.iter().sum()) };
    Ok(Account {
        entries: sum(count::ENTRY)?,
        returns: sum(count::RETURN)?,
        emitted: sum(count::EMITTED)?,
        ring_full: sum(count::RING_FULL)?,
        return_lost: sum(count::RETURN_LOST)?,
        no_start: sum(count::NO_START)?,
        start_full: sum(count::START_FULL)?,
        clock_back: sum(count::CLOCK_BACK)?,
        walk_failed: sum(count::WALK_FAILED)?,
        walk_truncated: sum(count::WALK_TRUNCATED)?,
        missed,
        filtered: 0,
    })
}

impl Probes {
    /// The counters of a probe.
    ///
    /// # Errors
    /// When the kernel does not let us read the map.
    pub fn account(&self, wanted: Probe) -> Result<Account, MapError> {
        read(self, row(wanted), self.missed(wanted))
    }

    /// The counters of layout records.
    ///
    /// # Errors
    /// When the kernel does not let us read the map.
    pub fn layout_account(&self) -> Result<Account, MapError> {
        read(self, probe::LAYOUT, 0)
    }
}
