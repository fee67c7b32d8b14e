//! What was counted since the beginning, from what came interval by interval.

use super::Snapshot;
use super::families::{self, Source};
use super::names::{Labels, Names, Owner};
use super::times::{Lengths, Times};
use crate::model::{AccountRow, Bucket, CallKind, HistogramClock, Probe};
use crate::recording::{Account, DeviceMeta, Error, Recording, VmMeta};
use std::collections::BTreeMap;

/// Calls of one kind and owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    pub(super) wall: Times,
    /// `None` until somebody looked.
    pub(super) on_cpu: Option<Times>,
    pub(super) lengths: Lengths,
}

impl Calls {
    fn merge(&mut self, other: &Self) {
        self.wall.merge(&other.wall);
        if let Some(times) = &other.on_cpu {
            self.on_cpu.get_or_insert_default().merge(times);
        }
        self.lengths.merge(&other.lengths);
    }
}

/// The sums. Their size goes by VMs and kinds of call, not by time.
#[derive(Clone, Debug)]
pub struct Totals {
    calls: BTreeMap<(Owner, Probe, CallKind), Calls>,
    entries: BTreeMap<(Owner, Probe), u64>,
    pub(super) accounts: BTreeMap<Probe, Account>,
    pub(super) names: Names,
}

impl Totals {
    /// Nothing yet; so many VMs and devices get series of their own at one time.
    #[must_use]
    pub fn new(most_vms: usize) -> Self {
        let (calls, entries, accounts) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { calls, entries, accounts, names: Names::new(most_vms) }
    }

    /// All that a recording counted.
    ///
    /// # Errors
    /// A table of it cannot be read.
    pub fn of_recording(recording: &Recording, most_vms: usize) -> Result<Self, Error> {
        let mut totals = Self::new(most_vms);
        let meta = recording.meta();
        for bucket in recording.histograms()? {
            totals.add_bucket(&bucket?);
        }
        for row in recording.accounts()? {
            totals.add_account(&row?);
        }
        // Series of VMs that ended in the recording are part of it.
        totals.know(&meta.vms, &meta.devices, 0);
        Ok(totals)
    }

    /// Adds what came into a bucket.
    pub fn add_bucket(&mut self, bucket: &Bucket) {
        let owner = self.names.place(Owner::new(bucket.vm, bucket.device));
        let calls = self.calls.entry((owner, bucket.probe, bucket.kind)).or_default();
        let Bucket { low, high, count, sum, .. } = *bucket;
        if bucket.counts_calls() {
            calls.wall.add(low, high, count, sum);
            if let Some(visited) = bucket.visited {
                calls.lengths.add(visited, count);
            }
        }
        if bucket.clock != HistogramClock::Wall {
            calls.on_cpu.get_or_insert_default().add(low, high, count, sum);
        }
    }

    /// Adds what was counted in an interval.
    pub fn add_account(&mut self, row: &AccountRow) {
        let owner = self.names.place(Owner::new(row.vm, row.device));
        *self.entries.entry((owner, row.probe)).or_default() += row.account.entries;
        self.accounts.entry(row.probe).or_default().add(&row.account);
    }

    /// Takes what is known of VMs and devices at `now` (`CLOCK_MONOTONIC`, ns), and drops the series of those that
    /// ended some minutes ago.
    pub fn know(&mut self, vms: &[VmMeta], devices: &[DeviceMeta], now: u64) {
        for over in self.names.know(vms, devices, now) {
            self.calls.retain(|(owner, ..), _| *owner != over);
            self.entries.retain(|(owner, _), _| *owner != over);
        }
    }

    /// The figures as they are now.
    #[must_use]
    pub fn snapshot(&self, source: &Source) -> Snapshot {
        Snapshot::new(families::all(self, source))
    }

    /// Calls by labels: two VMs of one name and process are one series.
    pub(super) fn labelled(&self) -> BTreeMap<(Labels, Probe, CallKind), Calls> {
        let mut labelled: BTreeMap<_, Calls> = BTreeMap::new();
        for ((owner, probe, kind), calls) in &self.calls {
            labelled.entry((self.names.labels(*owner), *probe, *kind)).or_default().merge(calls);
        }
        labelled
    }

    /// Entries by labels.
    pub(super) fn entries(&self) -> BTreeMap<(Labels, Probe), u64> {
        let mut labelled = BTreeMap::new();
        for ((owner, probe), entries) in &self.entries {
            *labelled.entry((self.names.labels(*owner), *probe)).or_default() += entries;
        }
        labelled
    }
}
