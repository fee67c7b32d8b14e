//! Runs every look-up through every engine, counts its steps, and checks its answer.

use super::engines::{Answer, Built, Lookup, with_engine};
use super::outcome::Lengths;
use super::prepared::Prepared;
use crate::engine::{Engine, EngineId};
use crate::model::SearchLength;

/// What one engine did with all look-ups.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) id: EngineId,
    pub(super) lookups: u64,
    pub(super) mismatches: u64,
    /// By class: look-ups by nodes visited.
    visited: Vec<Vec<u64>>,
    /// Nodes visited by event of the chunk at hand, summed over its look-ups.
    pub(super) by_event: Vec<u32>,
}

impl Count {
    /// Of look-ups of so many classes.
    pub(super) fn new(id: EngineId, classes: usize) -> Self {
        Self { id, lookups: 0, mismatches: 0, visited: vec![Vec::new(); classes], by_event: Vec::new() }
    }

    /// How many look-ups had each length.
    pub(super) fn lengths(&self) -> Lengths {
        let mut all = Lengths::default();
        for (length, count) in (0..self.visited.len()).flat_map(|class| self.lengths_of(class).0) {
            *all.0.entry(length).or_default() += count;
        }
        all
    }

    /// How many look-ups of a class had each length.
    pub(super) fn lengths_of(&self, class: usize) -> Lengths {
        let counts = self.visited.get(class).map_or(&[][..], Vec::as_slice);
        Lengths((0..).zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect())
    }

    fn run(&mut self, engine: &impl Answer, lookups: &[Lookup], expected: &[Option<u32>]) {
        for (lookup, expected) in lookups.iter().zip(expected) {
            let mut length = SearchLength::default();
            let found = engine.answer(lookup, &mut length);
            self.mismatches += u64::from(found != *expected);
            if let Some(visited) = self.visited.get_mut(usize::from(lookup.class)) {
                let place = length.visited as usize;
                if place >= visited.len() {
                    visited.resize(place + 1, 0);
                }
                visited[place] += 1;
            }
            if let Some(sum) = self.by_event.get_mut(lookup.event as usize) {
                *sum += length.visited;
            }
        }
        self.lookups += lookups.len() as u64;
    }
}

/// Counts look-ups of one layout in all engines, which are those of `counts` in their order. A layout
/// that an engine cannot be built over counts as a mismatch for each of its look-ups.
pub(super) fn count(counts: &mut [Count], prepared: &Prepared, lookups: &[Lookup]) {
    let expected: Option<Vec<Option<u32>>> = prepared
        .oracle
        .as_ref()
        .map(|oracle| lookups.iter().map(|lookup| oracle.find(lookup.addr)).collect());
    for (count, built) in counts.iter_mut().zip(&prepared.engines) {
        match (built, &expected) {
            (Some(built), Some(expected)) => {
                with_engine!(built, engine => count.run(engine, lookups, expected));
            }
            _ => {
                count.lookups += lookups.len() as u64;
                count.mismatches += lookups.len() as u64;
            }
        }
    }
}
