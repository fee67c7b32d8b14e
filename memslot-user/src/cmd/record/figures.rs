//! What the kernel counted, from its maps to the recording: accounts and histograms, by interval.

use anyhow::Context;
use memslot::{
    model::{AccountRow, Bucket, Probe},
    probe::{Filled, Histograms, Probes, Resolver, bucket},
    recording::{Account, Meta, Writer},
};
use std::collections::BTreeMap;

/// Where what came in an interval goes.
pub(crate) trait Sink {
    /// What came into a bucket.
    fn bucket(&mut self, bucket: &Bucket) -> anyhow::Result<()>;
    /// What was counted.
    fn account(&mut self, row: &AccountRow) -> anyhow::Result<()>;
}

impl Sink for Writer {
    fn bucket(&mut self, bucket: &Bucket) -> anyhow::Result<()> {
        Ok(self.push_bucket(bucket)?)
    }

    fn account(&mut self, row: &AccountRow) -> anyhow::Result<()> {
        Ok(self.push_account(row)?)
    }
}

/// What had been counted when it was read last.
#[derive(Default)]
pub(crate) struct Figures {
    histograms: Histograms,
    accounts: BTreeMap<(Probe, u32), Account>,
}

impl Figures {
    /// Reads the kernel's maps: passes on what came since the last time, and brings the accounts in `meta` up
    /// to date.
    pub(crate) fn read(
        &mut self,
        probes: &Probes,
        resolver: &mut Resolver,
        meta: &mut Meta,
        sink: &mut impl Sink,
        time: u64,
    ) -> anyhow::Result<()> {
        let unreadable = "cannot read the probes' counters";
        for (key, Filled { count, sum }) in self.histograms.read(probes).context(unreadable)? {
            let Some(row) = bucket(key, probes.knows_on_cpu(), time, count, sum, resolver) else { continue };
            if let Some(meta) = meta.probes.get_mut(&row.probe).filter(|_| row.counts_calls()) {
                *meta.counted.get_or_insert(0) += row.count;
            }
            sink.bucket(&row)?;
        }
        for (&probe, meta) in &mut meta.probes {
            let mut total = Account::default();
            for (subject, mut account) in probes.accounts(probe).context(unreadable)? {
                let (vm, device) = resolver.of_subject(probe, subject);
                if vm.is_some_and(|vm| resolver.is_gone(vm)) {
                    account.gone += account.in_flight();
                }
                total.add(&account);
                let before = self.accounts.insert((probe, subject), account).unwrap_or_default();
                let since = account.since(&before);
                if since != Account::default() {
                    let in_flight = account.in_flight();
                    sink.account(&AccountRow { time, probe, vm, device, account: since, in_flight })?;
                }
            }
            meta.account = total;
        }
        meta.layout_account = probes.layout_account().context(unreadable)?;
        Ok(())
    }
}
