//! Times the engines: interleaved, in rounds, many look-ups between two looks at the clock.
//!
//! What is timed is a look-up among others of its kind, with warm caches, on the replaying machine.
//! It compares engines; it is not what a look-up costs in the kernel, between other work.

use super::engines::{Answer, Built, Lookup, with_engine};
use super::outcome::Interval;
use super::run::{Progress, Report};
use crate::stats::median_interval;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Layouts that are timed: those with most look-ups.
const MOST_GROUPS: usize = 64;
/// Look-ups of a round, over all groups.
const SAMPLE: usize = 32_768;
/// Look-ups that are kept together, so that neighbours stay neighbours.
const CHUNK: usize = 512;
/// Look-ups between two looks at the clock, at least: a small group is run several times.
const BATCH: usize = 2048;

/// A layout with its engines and a sample of its look-ups.
struct Timed {
    engines: Vec<Built>,
    lookups: Vec<Lookup>,
    /// Look-ups that it stands for.
    weight: usize,
}

/// Collects what is to be timed.
#[derive(Default)]
pub(super) struct Sample {
    groups: Vec<Timed>,
}

/// The figures by engine, in their order.
pub(super) struct Timing {
    pub(super) ns_per_lookup: Vec<Interval>,
    pub(super) lookups: u64,
}

impl Sample {
    /// Keeps a group, if it is one of the largest so far.
    pub(super) fn offer(&mut self, engines: Vec<Built>, lookups: &[Lookup]) {
        if lookups.is_empty() {
            return;
        }
        if self.groups.len() == MOST_GROUPS {
            let smallest = self.groups.iter().enumerate().min_by_key(|(_, group)| group.weight);
            match smallest.map(|(place, group)| (place, group.weight)) {
                Some((place, weight)) if weight < lookups.len() => drop(self.groups.swap_remove(place)),
                _ => return,
            }
        }
        self.groups.push(Timed { engines, lookups: thin(lookups, SAMPLE), weight: lookups.len() });
    }

    /// Times all engines for `rounds` rounds. Each round begins with another engine, so that none is
    /// always the one that finds the cache as its neighbour left it.
    pub(super) fn run(mut self, engines: usize, rounds: u32, report: Report<'_>) -> Timing {
        self.groups.retain(|group| group.engines.len() == engines);
        let total: usize = self.groups.iter().map(|group| group.weight).sum();
        for group in &mut self.groups {
            // At least one chunk; together about the sample.
            let share = (SAMPLE as u128 * group.weight as u128 / total.max(1) as u128) as usize;
            group.lookups = thin(&group.lookups, share.max(CHUNK));
        }
        let mut times = vec![Vec::with_capacity(rounds as usize); engines];
        let mut checksum = 0_u64;
        // The first round warms up and is not counted.
        for round in 0..=rounds as usize {
            for turn in 0..engines {
                let engine = (round + turn) % engines;
                let (ns, sum) = self.round(engine);
                checksum = checksum.wrapping_add(sum);
                if round > 0 {
                    times[engine].push(ns);
                }
            }
            report(Progress { stage: "timing", done: round as u64, total: Some(u64::from(rounds)) });
        }
        black_box(checksum);
        let lookups = self.groups.iter().map(|group| group.lookups.len() as u64).sum();
        Timing { ns_per_lookup: times.into_iter().map(interval).collect(), lookups }
    }

    /// One engine over all groups: ns a look-up, and a checksum of the answers.
    #[expect(clippy::cast_precision_loss, reason = "times and counts far below 2^53")]
    fn round(&self, engine: usize) -> (f64, u64) {
        let (mut weighted, mut weights, mut checksum) = (0.0, 0.0, 0_u64);
        for group in &self.groups {
            let passes = BATCH.div_ceil(group.lookups.len());
            let (time, sum) =
                with_engine!(&group.engines[engine], engine => batch(engine, &group.lookups, passes));
            checksum = checksum.wrapping_add(sum);
            let ns = time.as_nanos() as f64 / (passes * group.lookups.len()) as f64;
            weighted += ns * group.weight as f64;
            weights += group.weight as f64;
        }
        (if weights > 0.0 { weighted / weights } else { 0.0 }, checksum)
    }
}

/// The timed loop, compiled for each engine.
#[inline(never)]
fn batch<E: Answer>(engine: &E, lookups: &[Lookup], passes: usize) -> (Duration, u64) {
    let mut sum = 0_u64;
    let start = Instant::now();
    for _ in 0..passes {
        for lookup in lookups {
            let found = engine.answer(lookup, &mut ());
            sum = sum.rotate_left(1) ^ found.map_or(u64::MAX, u64::from);
        }
    }
    (start.elapsed(), black_box(sum))
}

/// At most about `most` look-ups, in whole chunks evenly spaced over all.
fn thin(lookups: &[Lookup], most: usize) -> Vec<Lookup> {
    if lookups.len() <= most {
        return lookups.to_vec();
    }
    let chunks: Vec<&[Lookup]> = lookups.chunks(CHUNK).collect();
    let wanted = most.div_ceil(CHUNK).clamp(1, chunks.len());
    (0..wanted).flat_map(|chunk| chunks[chunk * chunks.len() / wanted].iter().copied()).collect()
}

fn interval(mut rounds: Vec<f64>) -> Interval {
    rounds.sort_unstable_by(f64::total_cmp);
    median_interval(&rounds).map(|(value, low, high)| Interval { value, low, high }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinned_sample_keeps_neighbours_and_spans_all() {
        let lookup = |event| Lookup { addr: u64::from(event), last: 0, event };
        let lookups: Vec<Lookup> = (0..100_000).map(lookup).collect();
        let thinned = thin(&lookups, 4096);
        assert_eq!(thinned.len(), 4096);
        assert!(
            thinned
                .chunks(CHUNK)
                .all(|chunk| chunk.windows(2).all(|pair| pair[1].event == pair[0].event + 1))
        );
        assert!(thinned[4095].event > 80_000, "{}", thinned[4095].event);
        assert_eq!(thin(&lookups[..10], 4096).len(), 10);
    }
}
