//! The kernel-side counters, summed over CPUs.

use super::Probes;
use crate::{model::Probe, recording::Account};
use aya::maps::{MapError, PerCpuArray};
use memslot_common::account::{OTHERS, SUBJECTS, count, probe, row};

/// The probe's number in the kernel.
#[must_use]
pub(super) fn code(wanted: Probe) -> u32 {
    match wanted {
        Probe::PageFault => probe::PAGE_FAULT,
        Probe::Ple => probe::PLE,
        Probe::Translate => probe::TRANSLATE,
    }
}

type Counters<'a> = PerCpuArray<&'a aya::maps::MapData, [u64; count::COUNT]>;

fn account(counters: &Counters<'_>, probe: u32, subject: u32) -> Result<Account, MapError> {
    let mut sum = [0u64; count::COUNT];
    for cpu in counters.get(&row(probe, subject), 0)?.iter() {
        sum.iter_mut().zip(cpu).for_each(|(sum, count)| *sum += count);
    }
    Ok(Account {
        entries: sum[count::ENTRY],
        begun: sum[count::BEGUN],
        returns: sum[count::RETURN],
        finished: sum[count::FINISHED],
        emitted: sum[count::EMITTED],
        ring_full: sum[count::RING_FULL],
        not_sampled: sum[count::NOT_SAMPLED],
        filtered: sum[count::FILTERED],
        histogram_full: sum[count::HISTOGRAM_FULL],
        return_lost: sum[count::RETURN_LOST],
        no_start: sum[count::NO_START],
        start_full: sum[count::START_FULL],
        nested: sum[count::NESTED],
        clock_back: sum[count::CLOCK_BACK],
        gone: sum[count::GONE],
        walk_failed: sum[count::WALK_FAILED],
        walk_truncated: sum[count::WALK_TRUNCATED],
        missed: 0,
        missed_returns: 0,
    })
}

impl Probes {
    fn counters(&self) -> Result<Option<Counters<'_>>, MapError> {
        self.ebpf().map("COUNTERS").map(PerCpuArray::try_from).transpose()
    }

    /// The accounts of a probe by the number of the VM or device, those without a call left out. What the
    /// kernel skipped is nobody's, and in the account of number 0.
    ///
    /// # Errors
    /// When the kernel does not let us read the map.
    pub fn accounts(&self, wanted: Probe) -> Result<Vec<(u32, Account)>, MapError> {
        let Some(counters) = self.counters()? else { return Ok(Vec::new()) };
        let mut accounts = Vec::new();
        for subject in 0..SUBJECTS {
            let mut account = account(&counters, code(wanted), subject)?;
            if subject == OTHERS {
                let missed = self.missed(wanted);
                (account.missed, account.missed_returns) = (missed.entries, missed.returns);
            }
            if account != Account::default() {
                accounts.push((subject, account));
            }
        }
        Ok(accounts)
    }

    /// The counters of layout records.
    ///
    /// # Errors
    /// When the kernel does not let us read the map.
    pub fn layout_account(&self) -> Result<Account, MapError> {
        let Some(counters) = self.counters()? else { return Ok(Account::default()) };
        account(&counters, probe::LAYOUT, OTHERS)
    }
}
