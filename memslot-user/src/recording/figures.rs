//! The tables of what the kernel counted: histograms and accounts, by interval.
//!
//! `docs/recording-format.md` explains each column; a test compares the two.

use super::cell::{Cell, Name, Named};
use super::row::{Row, Stored, table};
use super::{Account, SCHEMA};
use crate::model::{AccountRow, Bucket, CallKind, DeviceId, HistogramClock, Probe, VmId};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use std::sync::Arc;

table! {
    /// What came into a bucket of a histogram.
    BucketRow, BucketColumns, "histograms.arrow", 2, Bucket {
        time: u64,
        probe: Named<Probe>,
        vm: Option<u32>,
        device: Option<u32>,
        kind: Named<CallKind>,
        visited: Option<u32>,
        clock: Named<HistogramClock>,
        low: u64,
        high: u64,
        count: u64,
        sum: u64,
    }
}

table! {
    /// What was counted of a probe.
    CountsRow, CountsColumns, "accounts.arrow", 2, AccountRow {
        time: u64,
        probe: Named<Probe>,
        vm: Option<u32>,
        device: Option<u32>,
        entries: u64,
        begun: u64,
        returns: u64,
        finished: u64,
        emitted: u64,
        ring_full: u64,
        not_sampled: u64,
        filtered: u64,
        histogram_full: u64,
        return_lost: u64,
        no_start: u64,
        start_full: u64,
        nested: u64,
        clock_back: u64,
        gone: u64,
        walk_failed: u64,
        walk_truncated: u64,
        missed: u64,
        missed_returns: u64,
        in_flight: u64,
    }
}

impl Name for Probe {
    const ALL: &'static [Self] = &Probe::ALL;
    fn text(self) -> &'static str {
        self.name()
    }
    fn key(self) -> i8 {
        self as i8
    }
}

impl Name for CallKind {
    const ALL: &'static [Self] = &CallKind::ALL;
    fn text(self) -> &'static str {
        self.name()
    }
    fn key(self) -> i8 {
        self as i8
    }
}

impl Name for HistogramClock {
    const ALL: &'static [Self] = &HistogramClock::ALL;
    fn text(self) -> &'static str {
        self.name()
    }
    fn key(self) -> i8 {
        self as i8
    }
}

impl From<&Bucket> for BucketRow {
    fn from(bucket: &Bucket) -> Self {
        Self {
            time: bucket.time,
            probe: Named(bucket.probe),
            vm: bucket.vm.map(|vm| vm.0),
            device: bucket.device.map(|device| device.0),
            kind: Named(bucket.kind),
            visited: bucket.visited,
            clock: Named(bucket.clock),
            low: bucket.low,
            high: bucket.high,
            count: bucket.count,
            sum: bucket.sum,
        }
    }
}

impl TryFrom<BucketRow> for Bucket {
    type Error = String;
    fn try_from(row: BucketRow) -> Result<Self, String> {
        if row.low > row.high || row.count == 0 {
            return Err("a bucket that holds nothing".to_owned());
        }
        if !CallKind::of_probe(row.probe.0).contains(&row.kind.0) {
            return Err(format!("{} calls of kind {}", row.probe.0.name(), row.kind.0.name()));
        }
        Ok(Self {
            time: row.time,
            probe: row.probe.0,
            vm: row.vm.map(VmId),
            device: row.device.map(DeviceId),
            kind: row.kind.0,
            visited: row.visited,
            clock: row.clock.0,
            low: row.low,
            high: row.high,
            count: row.count,
            sum: row.sum,
        })
    }
}

impl From<&AccountRow> for CountsRow {
    fn from(row: &AccountRow) -> Self {
        let account = row.account;
        Self {
            time: row.time,
            probe: Named(row.probe),
            vm: row.vm.map(|vm| vm.0),
            device: row.device.map(|device| device.0),
            entries: account.entries,
            begun: account.begun,
            returns: account.returns,
            finished: account.finished,
            emitted: account.emitted,
            ring_full: account.ring_full,
            not_sampled: account.not_sampled,
            filtered: account.filtered,
            histogram_full: account.histogram_full,
            return_lost: account.return_lost,
            no_start: account.no_start,
            start_full: account.start_full,
            nested: account.nested,
            clock_back: account.clock_back,
            gone: account.gone,
            walk_failed: account.walk_failed,
            walk_truncated: account.walk_truncated,
            missed: account.missed,
            missed_returns: account.missed_returns,
            in_flight: row.in_flight,
        }
    }
}

impl TryFrom<CountsRow> for AccountRow {
    type Error = String;
    fn try_from(row: CountsRow) -> Result<Self, String> {
        let account = Account {
            entries: row.entries,
            begun: row.begun,
            returns: row.returns,
            finished: row.finished,
            emitted: row.emitted,
            ring_full: row.ring_full,
            not_sampled: row.not_sampled,
            filtered: row.filtered,
            histogram_full: row.histogram_full,
            return_lost: row.return_lost,
            no_start: row.no_start,
            start_full: row.start_full,
            nested: row.nested,
            clock_back: row.clock_back,
            gone: row.gone,
            walk_failed: row.walk_failed,
            walk_truncated: row.walk_truncated,
            missed: row.missed,
            missed_returns: row.missed_returns,
        };
        Ok(Self {
            time: row.time,
            probe: row.probe.0,
            vm: row.vm.map(VmId),
            device: row.device.map(DeviceId),
            account,
            in_flight: row.in_flight,
        })
    }
}
