//! Runs every look-up through every engine, counts its steps, and checks its answer.

use super::engines::{Answer, Built, Lookup, with_engine};
use super::join::Group;
use super::outcome::Lengths;
use crate::engine::{Engine, EngineId, Linear};
use crate::model::SearchLength;

/// What one engine did with all look-ups.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) id: EngineId,
    pub(super) lookups: u64,
    pub(super) mismatches: u64,
    /// Look-ups by nodes visited.
    visited: Vec<u64>,
    /// Nodes visited by event, summed over its look-ups.
    pub(super) by_event: Vec<u32>,
}

impl Count {
    pub(super) fn new(id: EngineId) -> Self {
        Self { id, lookups: 0, mismatches: 0, visited: Vec::new(), by_event: Vec::new() }
    }

    /// How many look-ups had each length.
    pub(super) fn lengths(&self) -> Lengths {
        Lengths((0..).zip(self.visited.iter().copied()).filter(|(_, count)| *count > 0).collect())
    }

    fn run(&mut self, engine: &impl Answer, lookups: &[Lookup], expected: &[Option<u32>]) {
        for (lookup, expected) in lookups.iter().zip(expected) {
            let mut length = SearchLength::default();
            let found = engine.answer(lookup, &mut length);
            self.mismatches += u64::from(found != *expected);
            let visited = length.visited as usize;
            if visited >= self.visited.len() {
                self.visited.resize(visited + 1, 0);
            }
            self.visited[visited] += 1;
            if let Some(sum) = self.by_event.get_mut(lookup.event as usize) {
                *sum += length.visited;
            }
        }
        self.lookups += lookups.len() as u64;
    }
}

/// Counts a group in all engines. Returns the engines, in the order of `counts`, for timing. A group
/// that an engine cannot be built over counts as a mismatch for each of its look-ups.
pub(super) fn count(counts: &mut [Count], group: &Group<'_>, events: usize) -> Vec<Built> {
    let expected: Vec<Option<u32>> = match Linear::build(group.ranges) {
        Ok(oracle) => group.lookups.iter().map(|lookup| oracle.find(lookup.addr)).collect(),
        Err(_) => Vec::new(),
    };
    let mut all = Vec::with_capacity(counts.len());
    for count in counts {
        count.by_event.resize(events, 0);
        match Built::new(count.id, group.ranges, group.kernel) {
            Ok(built) if expected.len() == group.lookups.len() => {
                with_engine!(&built, engine => count.run(engine, group.lookups, &expected));
                all.push(built);
            }
            _ => {
                count.lookups += group.lookups.len() as u64;
                count.mismatches += group.lookups.len() as u64;
            }
        }
    }
    all
}
