//! Gives every translation its layout, and makes of it the look-ups that `translate_desc` made.

use super::cache::Caches;
use super::chunks::{Chunks, whole};
use super::engines::{KernelTree, Lookup, class};
use super::event::{Basis, Event};
use super::fold::{Fold, Group};
use super::run::{Error, LastUsed, Options, Report};
use super::tables::{self, RegionLayout, TableHistory};
use super::unjoined::Unjoined;
use crate::engine::{Engine, Linear};
use crate::model::{RegionChange, SearchLength, TableId, Translation};
use crate::recording::{Meta, Recording};
use std::collections::BTreeMap;

/// Segments that an iovec can have.
const UIO_MAXIOV: i32 = 1024;
const EAGAIN: i32 = -11;
const EFAULT: i32 = -14;
const EPERM: i32 = -1;
const ENOBUFS: i32 = -105;

/// The part of a translation that a replay needs.
#[derive(Clone, Copy)]
struct PendingCall {
    table: TableId,
    step: usize,
    addr: u64,
    latency: u64,
    len: u32,
    ret: i32,
    regions: u32,
    observed: Option<SearchLength>,
    access: u8,
    is_iotlb: bool,
    /// Device and queue; where the queue is not known, the worker.
    queue: (u32, u64),
}

impl PendingCall {
    fn new(call: &Translation, step: usize) -> Self {
        // A worker's number never equals a queue's: it is shifted out of the way.
        let queue = call.queue.map_or(u64::from(call.worker) << 16, u64::from);
        Self {
            table: call.table,
            step,
            addr: call.addr,
            latency: call.latency,
            len: call.len,
            ret: call.ret,
            regions: call.regions,
            observed: call.length,
            access: call.access,
            is_iotlb: call.is_iotlb,
            queue: (call.device.0, queue),
        }
    }

    /// Goes the way of `translate_desc`: a search a segment, each for what is left of the range, until
    /// all is translated or a search fails. Appends the look-ups.
    fn join(&self, layout: &RegionLayout, number: u32, lookups: &mut Vec<Lookup>) -> Result<Event, Unjoined> {
        if layout.ranges.len() != self.regions as usize {
            return Err(Unjoined::Disagrees);
        }
        if self.ret == ENOBUFS {
            return Err(Unjoined::IovecFull);
        }
        let last = self.addr.wrapping_add(u64::from(self.len)).wrapping_sub(1);
        let (mut addr, mut done, mut segments) = (self.addr, 0_u64, 0_i32);
        let mut length = SearchLength::default();
        let ret = loop {
            if done >= u64::from(self.len) {
                break segments;
            }
            // What goes on beyond the recorded result, or the longest iovec, is another layout's.
            if segments > if self.ret >= 0 { self.ret } else { UIO_MAXIOV } {
                return Err(Unjoined::Disagrees);
            }
            let found = layout.tree.first(addr, last, &mut length).filter(|range| range.start <= addr);
            lookups.push(Lookup { addr, last, event: number, class: class(found.is_some(), self.is_iotlb) });
            let Some(range) = found else { break if self.is_iotlb { EAGAIN } else { EFAULT } };
            if layout.permission(range.key) & self.access == 0 {
                break EPERM;
            }
            let size = (range.last - addr).saturating_add(1);
            done = done.saturating_add(size);
            addr = addr.wrapping_add(size);
            segments += 1;
        };
        // A failing call does not say how many segments it had; then the answer alone is compared.
        if ret != self.ret {
            return Err(Unjoined::Disagrees);
        }
        let basis = if ret == 1 { Basis::OneSegment } else { Basis::Other };
        Ok(Event { latency: self.latency, observed: self.observed, modelled: length, basis })
    }
}

/// The histories of a recording's tables.
struct Histories<'a> {
    meta: &'a Meta,
    /// Regions that a table can have: the module's parameter, or its default.
    limit: usize,
    changes: BTreeMap<TableId, Vec<RegionChange>>,
    by_table: BTreeMap<TableId, TableHistory>,
}

impl Histories<'_> {
    fn of(&mut self, table: TableId) -> &mut TableHistory {
        let (meta, changes, limit) = (self.meta, &mut self.changes, self.limit);
        self.by_table.entry(table).or_insert_with(|| {
            let older = meta.tables.iter().find(|known| known.table == table).map(|known| known.older);
            tables::history(changes.remove(&table).unwrap_or_default(), older, limit)
        })
    }
}

/// Joins the translations of a recording, chunk by chunk, and hands them to `fold`.
pub(super) fn translations(
    recording: &Recording,
    options: &Options,
    report: Report<'_>,
    fold: &mut Fold<'_>,
) -> Result<(), Error> {
    let meta = recording.meta();
    let limit = meta.parameters.get("vhost.max_iotlb_entries").and_then(|value| value.parse().ok());
    let mut notes = Vec::new();
    let mut changes: BTreeMap<TableId, Vec<RegionChange>> = BTreeMap::new();
    whole(recording.region_changes()?, &mut notes, report, |change: RegionChange| {
        changes.entry(change.table).or_default().push(change);
    })?;
    let mut histories = Histories { meta, limit: limit.unwrap_or(2048), changes, by_table: BTreeMap::new() };
    let mut caches = Caches::default();
    let mut chunks = Chunks::new(recording.translations()?, options.chunk);
    let mut pending: Vec<PendingCall> = Vec::new();
    let mut lookups = Vec::new();
    loop {
        pending.clear();
        let more = chunks.next("replaying translations", report, |call: Translation| {
            let step = histories.of(call.table).step_at(call.time);
            pending.push(PendingCall::new(&call, step));
        })?;
        if !more {
            break;
        }
        pending.sort_by_key(|call| (call.table, call.step));
        for group in pending.chunk_by(|one, other| (one.table, one.step) == (other.table, other.step)) {
            region_group(fold, &mut histories, group, options.last_used, &mut caches, &mut lookups);
        }
        fold.end_of_chunk();
    }
    notes.extend(chunks.note());
    fold.check.notes.splice(0..0, notes);
    Ok(())
}

/// Calls that met the same regions of the same table.
fn region_group(
    fold: &mut Fold<'_>,
    histories: &mut Histories<'_>,
    calls: &[PendingCall],
    mode: LastUsed,
    caches: &mut Caches<(u32, u64, u32)>,
    lookups: &mut Vec<Lookup>,
) {
    let Some(first) = calls.first() else { return };
    let layout = match histories.of(first.table).at(first.step) {
        Ok(layout) => layout,
        Err(reason) => return fold.leave_out(reason, calls.len() as u64),
    };
    if Linear::build(&layout.ranges).is_err() {
        return fold.leave_out(Unjoined::Overlap, calls.len() as u64);
    }
    fold.note_order(layout.order_unknown);
    lookups.clear();
    for call in calls {
        let before = lookups.len();
        match call.join(&layout, fold.next_event(), lookups) {
            Ok(event) => {
                if mode == LastUsed::Queue {
                    ask_the_queue(fold, &layout, call, caches, lookups, before);
                }
                fold.push(event);
            }
            Err(reason) => {
                lookups.truncate(before);
                fold.leave_out(reason, 1);
            }
        }
    }
    fold.visit(&Group {
        key: (first.table.0, 0, first.step),
        ranges: &layout.ranges,
        kernel: KernelTree::Regions(&layout.tree),
        lookups,
    });
}

/// Takes away the look-ups from `before` on that the queue's last-used region answers. A table has no
/// generation; its changes stand for one.
fn ask_the_queue(
    fold: &mut Fold<'_>,
    layout: &RegionLayout,
    call: &PendingCall,
    caches: &mut Caches<(u32, u64, u32)>,
    lookups: &mut Vec<Lookup>,
    before: usize,
) {
    let held = caches.held((call.queue.0, call.queue.1, call.table.0), call.step as u64);
    let mut left = before;
    for at in before..lookups.len() {
        let lookup = lookups[at];
        fold.check.last_used.asked += 1;
        if held.is_some_and(|range| range.contains(lookup.addr)) {
            fold.check.last_used.answered += 1;
            continue;
        }
        if let Some(found) = layout.tree.search(lookup.addr, &mut ()) {
            *held = Some(found);
        }
        lookups[left] = lookup;
        left += 1;
    }
    lookups.truncate(left);
}
