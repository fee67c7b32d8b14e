//! Gives every fault its layout, and makes of it the look-up that the kernel made.

use super::cache::Caches;
use super::chunks::{Chunks, whole};
use super::engines::{KernelTree, Lookup, class};
use super::event::{Basis, Event};
use super::fold::{Fold, Group};
use super::layouts::{self, Histories, SlotLayout, Space};
use super::run::{Error, LastUsed, Options, Report};
use super::unjoined::Unjoined;
use crate::engine::{Range, search_with_last_used};
use crate::model::{Class, Fault, SearchLength};
use crate::recording::Recording;
use std::collections::BTreeSet;

/// The part of a fault that a replay needs.
#[derive(Clone, Copy)]
struct PendingFault {
    space: Space,
    /// Whose slots the fault saw.
    generation: u64,
    /// As the kernel had it, with the bit that says that an update was in progress.
    raw_generation: u64,
    vcpu: u32,
    gfn: u64,
    latency: u64,
    slot: Option<i32>,
    last_used: Option<i32>,
    observed: Option<SearchLength>,
    basis: Basis,
}

/// A fault in its layout.
struct Joined {
    event: Event,
    found: Option<Range>,
    /// The vCPU's last-used slot at entry, as recorded.
    last_used: Option<Range>,
}

impl PendingFault {
    fn new(fault: &Fault) -> Self {
        let basis = match fault.class {
            Class::Ram if fault.ret == 1 => Basis::Ram,
            Class::NoSlot => Basis::NoSlot,
            _ => Basis::Other,
        };
        let in_progress = if fault.ambiguous { Fault::UPDATE_IN_PROGRESS } else { 0 };
        Self {
            space: layouts::space(fault),
            generation: fault.generation,
            raw_generation: fault.generation | in_progress,
            vcpu: fault.vcpu,
            gfn: fault.gpa.gfn().0,
            latency: fault.latency,
            slot: fault.slot,
            last_used: fault.last_used,
            observed: fault.length,
            basis,
        }
    }

    /// The set was already the next generation's: see [`layouts::in_force`].
    fn ambiguous(&self) -> bool {
        self.raw_generation & Fault::UPDATE_IN_PROGRESS != 0
    }

    fn join(&self, layout: &SlotLayout) -> Result<Joined, Unjoined> {
        let slot = |id: Option<i32>| match id {
            Some(id) => layout.slot(id).map(Some).ok_or(Unjoined::Disagrees),
            None => Ok(None),
        };
        let (last_used, found) = (slot(self.last_used)?, slot(self.slot)?);
        let search = search_with_last_used(&layout.tree, self.gfn, last_used);
        if search.found != found.map(|range| range.key) {
            return Err(Unjoined::Disagrees);
        }
        let event = Event {
            latency: self.latency,
            observed: self.observed,
            modelled: search.length,
            basis: self.basis,
        };
        Ok(Joined { event, found, last_used })
    }
}

/// Joins the faults of a recording, chunk by chunk, and hands them to `fold`.
pub(super) fn faults(
    recording: &Recording,
    options: &Options,
    report: Report<'_>,
    fold: &mut Fold<'_>,
) -> Result<(), Error> {
    let mut changes = Vec::new();
    let mut notes = Vec::new();
    whole(recording.slot_changes()?, &mut notes, report, |change| changes.push(change))?;
    let mut histories = Histories::new(recording.meta(), changes);
    let mut odd = None;
    let mut caches = Caches::default();
    let mut chunks = Chunks::new(recording.faults()?, options.chunk);
    let mut pending: Vec<PendingFault> = Vec::new();
    let mut lookups = Vec::new();
    loop {
        pending.clear();
        let more = chunks.next("replaying faults", report, |fault| match fault.class {
            Class::MmioCached => fold.check.mmio_cached += 1,
            Class::Shadow => fold.leave_out(Unjoined::Shadow, 1),
            Class::Ram | Class::NoSlot => pending.push(PendingFault::new(&fault)),
        })?;
        if !more {
            break;
        }
        if pending.iter().any(PendingFault::ambiguous) {
            let odd = match &odd {
                Some(odd) => odd,
                None => odd.insert(odd_generations(recording)?),
            };
            for fault in pending.iter_mut().filter(|fault| fault.ambiguous()) {
                let step = layouts::generation_step(fault.space, odd.contains(&fault.space));
                fault.generation = layouts::in_force(fault.generation, step);
            }
        }
        // Stable, so that within a generation the order of the recording stays.
        pending.sort_by_key(|fault| (fault.space, fault.generation));
        for group in
            pending.chunk_by(|one, other| (one.space, one.generation) == (other.space, other.generation))
        {
            slot_group(fold, &mut histories, group, options.last_used, &mut caches, &mut lookups);
        }
        fold.end_of_chunk();
    }
    notes.extend(chunks.note());
    fold.check.notes.splice(0..0, notes);
    Ok(())
}

/// The spaces that have faults of odd generations. Asked for only where an update was in progress: it
/// takes another look at the whole recording, as the first such fault may come last.
fn odd_generations(recording: &Recording) -> Result<BTreeSet<Space>, Error> {
    let mut odd = BTreeSet::new();
    for fault in recording.faults()? {
        let fault = fault?;
        if fault.class.searches() && fault.generation % 2 == 1 {
            odd.insert(layouts::space(&fault));
        }
    }
    Ok(odd)
}

/// Faults of one generation of one space.
fn slot_group(
    fold: &mut Fold<'_>,
    histories: &mut Histories<'_>,
    faults: &[PendingFault],
    mode: LastUsed,
    caches: &mut Caches<(u32, u32)>,
    lookups: &mut Vec<Lookup>,
) {
    let Some(first) = faults.first() else { return };
    let history = histories.of(first.space);
    let step = history.step_at(first.generation);
    let layout = match history.at(step) {
        Ok(layout) => layout,
        Err(reason) => return fold.leave_out(reason, faults.len() as u64),
    };
    fold.note_order(layout.order_unknown);
    lookups.clear();
    for fault in faults {
        let joined = match fault.join(&layout) {
            Ok(joined) => joined,
            // The kernel may have looked again, once the next set was there.
            Err(Unjoined::Disagrees) if fault.ambiguous() => {
                fold.leave_out(Unjoined::Ambiguous, 1);
                continue;
            }
            Err(reason) => {
                fold.leave_out(reason, 1);
                continue;
            }
        };
        if answered(fold, fault, &joined, mode, caches) {
            fold.check.last_used.answered += 1;
        } else {
            let class = class(joined.found.is_some(), false);
            lookups.push(Lookup { addr: fault.gfn, last: fault.gfn, event: fold.next_event(), class });
        }
        fold.push(joined.event);
    }
    let (vm, as_id) = first.space;
    fold.visit(&Group {
        key: (vm.0, as_id, step),
        ranges: &layout.ranges,
        kernel: KernelTree::Slots(&layout.tree),
        lookups,
    });
}

/// Does a last-used slot answer, so that no engine is asked?
fn answered(
    fold: &mut Fold<'_>,
    fault: &PendingFault,
    joined: &Joined,
    mode: LastUsed,
    caches: &mut Caches<(u32, u32)>,
) -> bool {
    let who = match mode {
        LastUsed::Off => return false,
        // The recording says what the vCPU's own slot was.
        LastUsed::On | LastUsed::Queue => {
            fold.check.last_used.asked += 1;
            return joined.last_used.is_some_and(|range| range.contains(fault.gfn));
        }
        LastUsed::Vcpu => (fault.space.0.0, fault.vcpu),
        LastUsed::Vm => (fault.space.0.0, u32::from(fault.space.1)),
    };
    let check = &mut fold.check.last_used;
    let held = caches.held(who, fault.raw_generation);
    check.asked += 1;
    if mode == LastUsed::Vcpu {
        check.compared += 1;
        check.agreed += u64::from(*held == joined.last_used);
    }
    let answered = held.is_some_and(|range| range.contains(fault.gfn));
    // As in the kernel, a search in vain leaves the last-used slot as it was.
    if let Some(found) = joined.found {
        *held = Some(found);
    }
    answered
}
