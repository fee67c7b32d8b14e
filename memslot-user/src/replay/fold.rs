//! Takes what was joined, chunk by chunk, and keeps the figures, which do not grow with the events.

use super::count::{Count, count};
use super::engines::{KernelTree, Lookup, classes};
use super::event::{Basis, Event, Kept};
use super::outcome::{Check, Lengths};
use super::prepared::{Key, Prepared, Store};
use super::reservoir::Reservoir;
use super::timing::Sample;
use super::unjoined::Unjoined;
use crate::engine::{EngineId, Range};
use crate::model::Probe;
use crate::stats;
use std::collections::BTreeMap;

/// Events of a chunk, which is as much of a recording as is held at once. A recording that is no longer
/// than that is in the sample whole.
pub(super) const CHUNK: usize = 1 << 18;
/// Events that stay neighbours in the sample.
const BLOCK: usize = 512;

/// A snapshot is a walk over a tree: it shows the tree's shape, and not how it came about.
const ORDER_UNKNOWN: &str = "some layouts are older than the recording, so the order in which they were registered is \
                             not known; linear and wbtree, which depend on it, had them by id or address";

/// Look-ups that share a layout, in the order of their events.
pub(super) struct Group<'a> {
    pub(super) key: Key,
    pub(super) ranges: &'a [Range],
    pub(super) kernel: KernelTree<'a>,
    pub(super) lookups: &'a [Lookup],
}

/// Told of each group with the events that it comes from; their look-ups bear an event's place among these.
pub(super) type Listener<'a> = &'a mut dyn FnMut(&[Event], &Group<'_>);

/// The figures as they grow.
pub(super) struct Fold<'a> {
    engines: Vec<EngineId>,
    store: Store,
    pub(super) counts: Vec<Count>,
    pub(super) timing: Sample,
    pub(super) lookups: u64,
    pub(super) left_out: BTreeMap<String, u64>,
    pub(super) check: Check,
    /// Search lengths that the kernel had.
    pub(super) observed: Lengths,
    pub(super) latency: stats::Sample,
    /// Smallest length of a search, and largest of all, among events that a fit can rest on.
    pub(super) range: Option<(u32, u32)>,
    pub(super) kept: Reservoir<Kept>,
    /// The events of the chunk at hand.
    events: Vec<Event>,
    listener: Option<Listener<'a>>,
    /// Events of the chunk that the listener was told of.
    told: usize,
}

impl<'a> Fold<'a> {
    /// Keeps about `sample` events for the fit and the predictions.
    pub(super) fn new(probe: Probe, engines: Vec<EngineId>, sample: usize) -> Self {
        let classes = classes(probe).len();
        // Small samples are for tests, and need blocks all the same.
        let block = BLOCK.min(sample / 8).max(1);
        Self {
            store: Store::default(),
            counts: engines.iter().map(|id| Count::new(*id, classes)).collect(),
            engines,
            timing: Sample::new(classes),
            lookups: 0,
            left_out: BTreeMap::new(),
            check: Check::default(),
            observed: Lengths::default(),
            latency: stats::Sample::default(),
            range: None,
            kept: Reservoir::new((sample / block).max(1), block),
            events: Vec::new(),
            listener: None,
            told: 0,
        }
    }

    /// Runs no engine and keeps no sample, but hands what is joined to the listener.
    pub(super) fn listening(probe: Probe, listener: Listener<'a>) -> Self {
        Self { listener: Some(listener), ..Self::new(probe, Vec::new(), 0) }
    }

    pub(super) fn leave_out(&mut self, reason: Unjoined, count: u64) {
        *self.left_out.entry(reason.reason().to_owned()).or_default() += count;
    }

    /// Says once that layouts come from snapshots.
    pub(super) fn note_order(&mut self, unknown: bool) {
        if unknown && !self.check.notes.iter().any(|note| note == ORDER_UNKNOWN) {
            self.check.notes.push(ORDER_UNKNOWN.to_owned());
        }
    }

    /// The number that the next event of the chunk gets.
    pub(super) fn next_event(&self) -> u32 {
        u32::try_from(self.events.len()).unwrap_or(u32::MAX)
    }

    /// Takes a joined event.
    pub(super) fn push(&mut self, event: Event) {
        self.check.events += 1;
        if let Some(observed) = event.observed {
            self.check.compared += 1;
            self.check.visited_differ += u64::from(observed.visited != event.modelled.visited);
            self.check.touched_differ += u64::from(observed.touched != event.modelled.touched);
            self.observed.add(observed.visited);
        }
        self.latency.add(event.latency);
        if event.basis != Basis::Other {
            let visited = event.visited();
            let (low, high) = self.range.unwrap_or((0, 0));
            let low = if visited > 0 && (low == 0 || visited < low) { visited } else { low };
            self.range = Some((low, high.max(visited)));
        }
        self.events.push(event);
    }

    /// Runs look-ups of the chunk's events through the engines.
    pub(super) fn visit(&mut self, group: &Group<'_>) {
        let prepared = self.store.get(group.key, || Prepared::new(&self.engines, group.ranges, group.kernel));
        for count in &mut self.counts {
            count.by_event.resize(self.events.len(), 0);
        }
        count(&mut self.counts, &prepared, group.lookups);
        self.timing.offer(group.key, &prepared, group.lookups);
        self.lookups += group.lookups.len() as u64;
        if let Some(listener) = &mut self.listener {
            let first = u32::try_from(self.told).unwrap_or(u32::MAX);
            let from_first =
                |lookup: &Lookup| Lookup { event: lookup.event.saturating_sub(first), ..*lookup };
            let lookups: Vec<Lookup> = group.lookups.iter().map(from_first).collect();
            listener(&self.events[self.told..], &Group { lookups: &lookups, ..*group });
            self.told = self.events.len();
        }
    }

    /// The chunk has no more events: what they took goes into the sample.
    pub(super) fn end_of_chunk(&mut self) {
        for (number, event) in self.events.iter().enumerate() {
            let counts = &self.counts;
            self.kept.offer(|| {
                let mut by_engine = [0; EngineId::ALL.len()];
                for (visited, count) in by_engine.iter_mut().zip(counts) {
                    *visited = count.by_event.get(number).copied().unwrap_or(0);
                }
                Kept { latency: event.latency, visited: event.visited(), basis: event.basis, by_engine }
            });
        }
        self.events.clear();
        self.told = 0;
        self.counts.iter_mut().for_each(|count| count.by_event.clear());
    }
}
