//! Gives every event its layout, and makes of it the look-ups that the kernel made.

use super::engines::{KernelTree, Lookup};
use super::layouts::{self, SlotHistory, SlotLayout, Space, Unjoined};
use super::outcome::Check;
use super::run::{Error, Progress, Report};
use super::tables::{RegionLayout, TableHistory};
use crate::engine::{Engine, Linear, Range, search_with_last_used};
use crate::model::{Class, Fault, RegionChange, SearchLength, TableId, Translation};
use crate::recording::{Meta, Recording, Rows, Stored};
use std::collections::BTreeMap;

/// Events alike enough that their latencies differ by the search and by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Basis {
    /// Faults on a slot after which the guest resumed.
    Ram,
    /// Faults on no slot.
    NoSlot,
    /// Translations into one segment.
    OneSegment,
    /// Anything else: no fit is made of it.
    Other,
}

impl Basis {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Ram => "faults on a slot after which the guest resumed",
            Self::NoSlot => "faults on no slot",
            Self::OneSegment => "translations into one segment",
            Self::Other => "other events",
        }
    }
}

/// An event that was joined with its layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) latency: u64,
    /// As recorded.
    pub(super) observed: Option<SearchLength>,
    /// As the model of the kernel's search has it.
    pub(super) modelled: SearchLength,
    pub(super) basis: Basis,
}

impl Event {
    /// Nodes that the kernel's search stood at.
    pub(super) fn visited(&self) -> u32 {
        self.observed.unwrap_or(self.modelled).visited
    }
}

/// Look-ups that share a layout, in the order of their events.
pub(super) struct Group<'a> {
    pub(super) ranges: &'a [Range],
    pub(super) kernel: KernelTree<'a>,
    pub(super) lookups: &'a [Lookup],
}

/// What joining gave, apart from the groups.
#[derive(Debug, Default)]
pub(super) struct Joined {
    pub(super) events: Vec<Event>,
    pub(super) lookups: u64,
    pub(super) left_out: BTreeMap<String, u64>,
    pub(super) check: Check,
}

impl Joined {
    fn leave_out(&mut self, reason: Unjoined, count: u64) {
        *self.left_out.entry(reason.reason().to_owned()).or_default() += count;
    }

    /// Says once that layouts come from snapshots.
    fn note_order(&mut self, unknown: bool) {
        if unknown && !self.check.notes.iter().any(|note| note == ORDER_UNKNOWN) {
            self.check.notes.push(ORDER_UNKNOWN.to_owned());
        }
    }

    fn push(&mut self, event: Event) {
        self.check.events += 1;
        if let Some(observed) = event.observed {
            self.check.compared += 1;
            self.check.visited_differ += u64::from(observed.visited != event.modelled.visited);
            self.check.touched_differ += u64::from(observed.touched != event.modelled.touched);
        }
        self.events.push(event);
    }
}

/// A snapshot is a walk over a tree: it shows the tree's shape, and not how it came about.
const ORDER_UNKNOWN: &str = "some layouts are older than the recording, so the order in which they were registered is \
                             not known; linear and wbtree, which depend on it, had them by id or address";

/// Reads a whole table; notes if it was cut off.
fn read<T: Stored>(
    rows: Result<Rows<T>, crate::recording::Error>,
    notes: &mut Vec<String>,
    report: Report<'_>,
    mut each: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut rows = rows?;
    let mut done = 0;
    for row in rows.by_ref() {
        each(row?)?;
        done += 1;
        if done % (1 << 16) == 0 {
            report(Progress { stage: "reading", done, total: None });
        }
    }
    notes.extend(rows.truncated().map(|truncated| truncated.to_string()));
    Ok(())
}

/// More events than their numbers can count.
const MOST_EVENTS: usize = u32::MAX as usize - 1;

/// The part of a fault that a replay needs.
#[derive(Clone, Copy)]
struct PendingFault {
    generation: u64,
    /// The set was already the next generation's: see [`layouts::in_force`].
    ambiguous: bool,
    gfn: u64,
    latency: u64,
    slot: Option<i32>,
    last_used: Option<i32>,
    observed: Option<SearchLength>,
    basis: Basis,
}

impl PendingFault {
    fn new(fault: &Fault) -> Self {
        let basis = match fault.class {
            Class::Ram if fault.ret == 1 => Basis::Ram,
            Class::NoSlot => Basis::NoSlot,
            _ => Basis::Other,
        };
        Self {
            generation: fault.generation,
            ambiguous: fault.ambiguous,
            gfn: fault.gpa.gfn().0,
            latency: fault.latency,
            slot: fault.slot,
            last_used: fault.last_used,
            observed: fault.length,
            basis,
        }
    }

    /// The fault in its layout: the event, and whether the tree was searched.
    fn join(&self, layout: &SlotLayout) -> Result<(Event, bool), Unjoined> {
        let last_used = match self.last_used {
            Some(id) => Some(layout.slot(id).ok_or(Unjoined::Disagrees)?),
            None => None,
        };
        let search = search_with_last_used(&layout.tree, self.gfn, last_used);
        let recorded = match self.slot {
            Some(id) => Some(layout.slot(id).ok_or(Unjoined::Disagrees)?.key),
            None => None,
        };
        if search.found != recorded {
            return Err(Unjoined::Disagrees);
        }
        let event = Event {
            latency: self.latency,
            observed: self.observed,
            modelled: search.length,
            basis: self.basis,
        };
        Ok((event, last_used.is_none_or(|range| !range.contains(self.gfn))))
    }
}

/// Joins the faults of a recording and hands the groups to `visit`.
pub(super) fn faults(
    recording: &Recording,
    last_used: bool,
    report: Report<'_>,
    visit: &mut dyn FnMut(&Joined, &Group<'_>),
) -> Result<Joined, Error> {
    let mut joined = Joined::default();
    let mut changes = Vec::new();
    let mut notes = Vec::new();
    read(recording.slot_changes(), &mut notes, report, |change| {
        changes.push(change);
        Ok(())
    })?;
    let mut pending: BTreeMap<Space, Vec<PendingFault>> = BTreeMap::new();
    let mut count = 0;
    read(recording.faults(), &mut notes, report, |fault| {
        if !fault.class.searches() {
            joined.check.without_search += 1;
        } else {
            count += 1;
            pending.entry(layouts::space(&fault)).or_default().push(PendingFault::new(&fault));
        }
        if count < MOST_EVENTS { Ok(()) } else { Err(Error::TooManyEvents) }
    })?;
    joined.check.notes = notes;

    let mut histories = layouts::histories(recording.meta(), changes, pending.keys().copied());
    let mut done = 0;
    for (space, mut faults) in pending {
        let step = layouts::generation_step(space, faults.iter().map(|fault| fault.generation));
        for fault in faults.iter_mut().filter(|fault| fault.ambiguous) {
            fault.generation = layouts::in_force(fault.generation, step);
        }
        // Stable, so that within a generation the order of the recording stays.
        faults.sort_by_key(|fault| fault.generation);
        let Some(history) = histories.get_mut(&space) else { continue };
        for group in faults.chunk_by(|one, other| one.generation == other.generation) {
            slot_group(&mut joined, history, group, last_used, visit);
            done += group.len() as u64;
            report(Progress { stage: "replaying faults", done, total: Some(count as u64) });
        }
    }
    Ok(joined)
}

fn slot_group(
    joined: &mut Joined,
    history: &mut SlotHistory,
    faults: &[PendingFault],
    last_used: bool,
    visit: &mut dyn FnMut(&Joined, &Group<'_>),
) {
    let Some(first) = faults.first() else { return };
    let layout = match history.at(first.generation) {
        Ok(layout) => layout,
        Err(reason) => return joined.leave_out(reason, faults.len() as u64),
    };
    joined.note_order(layout.order_unknown);
    let mut lookups = Vec::with_capacity(faults.len());
    for fault in faults {
        match fault.join(layout) {
            Ok((event, searched)) => {
                if searched || !last_used {
                    let event = u32::try_from(joined.events.len()).unwrap_or(u32::MAX);
                    lookups.push(Lookup { addr: fault.gfn, last: fault.gfn, event });
                } else {
                    joined.check.last_used_answered += 1;
                }
                joined.push(event);
            }
            // The kernel may have looked again, once the next set was there.
            Err(Unjoined::Disagrees) if fault.ambiguous => joined.leave_out(Unjoined::Ambiguous, 1),
            Err(reason) => joined.leave_out(reason, 1),
        }
    }
    joined.lookups += lookups.len() as u64;
    visit(
        joined,
        &Group { ranges: &layout.ranges, kernel: KernelTree::Slots(&layout.tree), lookups: &lookups },
    );
}

/// Segments that an iovec can have.
const UIO_MAXIOV: i32 = 1024;
const EAGAIN: i32 = -11;
const EFAULT: i32 = -14;
const EPERM: i32 = -1;
const ENOBUFS: i32 = -105;

/// The part of a translation that a replay needs.
#[derive(Clone, Copy)]
struct PendingCall {
    step: u64,
    addr: u64,
    latency: u64,
    len: u32,
    ret: i32,
    regions: u32,
    observed: Option<SearchLength>,
    access: u8,
    is_iotlb: bool,
}

impl PendingCall {
    fn new(call: &Translation, step: u64) -> Self {
        Self {
            step,
            addr: call.addr,
            latency: call.latency,
            len: call.len,
            ret: call.ret,
            regions: call.regions,
            observed: call.length,
            access: call.access,
            is_iotlb: call.is_iotlb,
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
            lookups.push(Lookup { addr, last, event: number });
            let found = layout.tree.first(addr, last, &mut length).filter(|range| range.start <= addr);
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

/// Regions that a table can have: the module's parameter, or its default.
fn limit(meta: &Meta) -> usize {
    meta.parameters.get("vhost.max_iotlb_entries").and_then(|value| value.parse().ok()).unwrap_or(2048)
}

/// Joins the translations of a recording and hands the groups to `visit`.
pub(super) fn translations(
    recording: &Recording,
    report: Report<'_>,
    visit: &mut dyn FnMut(&Joined, &Group<'_>),
) -> Result<Joined, Error> {
    let mut joined = Joined::default();
    let mut notes = Vec::new();
    let mut changes: BTreeMap<TableId, Vec<RegionChange>> = BTreeMap::new();
    read(recording.region_changes(), &mut notes, report, |change| {
        changes.entry(change.table).or_default().push(change);
        Ok(())
    })?;
    let meta = recording.meta();
    let mut histories: BTreeMap<TableId, TableHistory> = BTreeMap::new();
    let mut pending: BTreeMap<TableId, Vec<PendingCall>> = BTreeMap::new();
    let mut count = 0;
    read(recording.translations(), &mut notes, report, |call| {
        let history = histories.entry(call.table).or_insert_with(|| {
            let older = meta.tables.iter().find(|known| known.table == call.table).map(|known| known.older);
            TableHistory::new(changes.remove(&call.table).unwrap_or_default(), older, limit(meta))
        });
        let step = history.step_at(call.time);
        pending.entry(call.table).or_default().push(PendingCall::new(&call, step));
        count += 1;
        if count < MOST_EVENTS { Ok(()) } else { Err(Error::TooManyEvents) }
    })?;
    joined.check.notes = notes;

    let mut done = 0;
    for (table, mut calls) in pending {
        calls.sort_by_key(|call| call.step);
        let Some(history) = histories.get_mut(&table) else { continue };
        for group in calls.chunk_by(|one, other| one.step == other.step) {
            region_group(&mut joined, history, group, visit);
            done += group.len() as u64;
            report(Progress { stage: "replaying translations", done, total: Some(count as u64) });
        }
    }
    Ok(joined)
}

fn region_group(
    joined: &mut Joined,
    history: &mut TableHistory,
    calls: &[PendingCall],
    visit: &mut dyn FnMut(&Joined, &Group<'_>),
) {
    let Some(first) = calls.first() else { return };
    let layout = match history.at(first.step) {
        Ok(layout) => layout,
        Err(reason) => return joined.leave_out(reason, calls.len() as u64),
    };
    if Linear::build(&layout.ranges).is_err() {
        return joined.leave_out(Unjoined::Overlap, calls.len() as u64);
    }
    joined.note_order(layout.order_unknown);
    let mut lookups = Vec::with_capacity(calls.len());
    for call in calls {
        let (number, before) = (u32::try_from(joined.events.len()).unwrap_or(u32::MAX), lookups.len());
        match call.join(layout, number, &mut lookups) {
            Ok(event) => joined.push(event),
            Err(reason) => {
                lookups.truncate(before);
                joined.leave_out(reason, 1);
            }
        }
    }
    joined.lookups += lookups.len() as u64;
    visit(
        joined,
        &Group { ranges: &layout.ranges, kernel: KernelTree::Regions(&layout.tree), lookups: &lookups },
    );
}
