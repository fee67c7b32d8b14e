//! Times the engines: interleaved, in rounds, many look-ups between two looks at the clock.
//!
//! What is timed is a look-up among others of its kind, with warm caches, on the replaying machine.
//! It compares engines; it is not what a look-up costs in the kernel, between other work.

use super::engines::{Answer, Built, Lookup, with_engine};
use super::outcome::Interval;
use super::prepared::{Key, MOST_RANGES, Prepared};
use super::reservoir::Reservoir;
use super::run::{Progress, Report};
use crate::stats::median_interval;
use std::hint::black_box;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Layouts that are timed: those with most look-ups.
const MOST_LAYOUTS: usize = 64;
/// Look-ups of a round, over all layouts.
const SAMPLE: usize = 32_768;
/// Look-ups that are kept together, so that neighbours stay neighbours.
const BLOCK: usize = 512;

/// A layout with its engines and a sample of its look-ups.
struct Timed {
    key: Key,
    prepared: Rc<Prepared>,
    lookups: Reservoir<Lookup>,
    /// Look-ups by class.
    weights: Vec<u64>,
}

impl Timed {
    fn weight(&self) -> u64 {
        self.weights.iter().sum()
    }
}

/// Collects what is to be timed.
pub(super) struct Sample {
    layouts: Vec<Timed>,
    classes: usize,
}

/// The figures by engine, in their order.
pub(super) struct Timing {
    pub(super) ns_per_lookup: Vec<Interval>,
    /// By class, each timed apart.
    pub(super) by_class: Vec<Vec<Interval>>,
    pub(super) lookups: u64,
}

/// Look-ups that are timed in one go: all of a layout, or those of a class.
struct Lane<'a> {
    engines: Vec<&'a Built>,
    lookups: Vec<Lookup>,
    /// Look-ups that it stands for.
    weight: u64,
}

impl Sample {
    pub(super) fn new(classes: usize) -> Self {
        Self { layouts: Vec::new(), classes }
    }

    /// Takes the look-ups of a layout, if it is one of those with most.
    pub(super) fn offer(&mut self, key: Key, prepared: &Rc<Prepared>, lookups: &[Lookup]) {
        let Some(place) = self.place(key, prepared, lookups.len() as u64) else { return };
        let timed = &mut self.layouts[place];
        for lookup in lookups {
            timed.lookups.offer(|| *lookup);
            if let Some(weight) = timed.weights.get_mut(usize::from(lookup.class)) {
                *weight += 1;
            }
        }
    }

    /// Where the look-ups of a layout go: to those before, or in the place of the one with fewest.
    fn place(&mut self, key: Key, prepared: &Rc<Prepared>, lookups: u64) -> Option<usize> {
        if lookups == 0 || prepared.engines.iter().any(Option::is_none) {
            return None;
        }
        let known = self.layouts.iter().position(|timed| timed.key == key);
        if known.is_some() {
            return known;
        }
        let ranges = |layouts: &[Timed]| layouts.iter().map(|timed| timed.prepared.ranges).sum::<usize>();
        while !self.layouts.is_empty()
            && (self.layouts.len() == MOST_LAYOUTS || ranges(&self.layouts) + prepared.ranges > MOST_RANGES)
        {
            let fewest = self.layouts.iter().enumerate().min_by_key(|(_, timed)| timed.weight())?;
            if fewest.1.weight() >= lookups {
                return None;
            }
            let place = fewest.0;
            drop(self.layouts.swap_remove(place));
        }
        let (prepared, weights) = (Rc::clone(prepared), vec![0; self.classes]);
        self.layouts.push(Timed { key, prepared, lookups: Reservoir::new(SAMPLE / BLOCK, BLOCK), weights });
        Some(self.layouts.len() - 1)
    }

    /// Times all engines for `rounds` rounds. Each round begins with another engine, so that none is
    /// always the one that finds the cache as its neighbour left it.
    pub(super) fn run(self, engines: usize, rounds: u32, report: Report<'_>) -> Timing {
        let total: u64 = self.layouts.iter().map(Timed::weight).sum();
        let mut layouts: Vec<(Rc<Prepared>, Vec<u64>, Vec<Lookup>)> = Vec::new();
        for timed in self.layouts {
            // At least one block; together about the sample.
            let share = SAMPLE as u128 * u128::from(timed.weight()) / u128::from(total.max(1));
            let share = usize::try_from(share).unwrap_or(SAMPLE).max(BLOCK);
            let lookups = thin(&timed.lookups.into_items(), share);
            layouts.push((timed.prepared, timed.weights, lookups));
        }
        // All of them, then each class apart.
        let lanes: Vec<Vec<Lane<'_>>> = (0..=self.classes)
            .map(|lane| {
                let lanes = layouts
                    .iter()
                    .map(|(prepared, weights, lookups)| Lane::new(prepared, weights, lookups, lane));
                lanes.filter(|lane| !lane.lookups.is_empty()).collect()
            })
            .collect();
        let mut times = vec![vec![Vec::with_capacity(rounds as usize); engines]; lanes.len()];
        let mut checksum = 0_u64;
        // The first round warms up and is not counted.
        for round in 0..=rounds as usize {
            for turn in 0..engines {
                let engine = (round + turn) % engines;
                for (lane, times) in lanes.iter().zip(&mut times) {
                    let Some((ns, sum)) = run_lane(lane, engine) else { continue };
                    checksum = checksum.wrapping_add(sum);
                    if round > 0 {
                        times[engine].push(ns);
                    }
                }
            }
            report(Progress { stage: "timing", done: round as u64, total: Some(u64::from(rounds)) });
        }
        black_box(checksum);
        let mut times = times.into_iter().map(|engines| engines.into_iter().map(interval).collect());
        Timing {
            ns_per_lookup: times.next().unwrap_or_default(),
            by_class: times.collect(),
            lookups: layouts.iter().map(|(_, _, lookups)| lookups.len() as u64).sum(),
        }
    }
}

impl<'a> Lane<'a> {
    fn new(prepared: &'a Prepared, weights: &[u64], lookups: &[Lookup], lane: usize) -> Self {
        let of_lane = |lookup: &&Lookup| lane == 0 || usize::from(lookup.class) + 1 == lane;
        Self {
            engines: prepared.engines.iter().flatten().collect(),
            lookups: lookups.iter().filter(of_lane).copied().collect(),
            weight: if lane == 0 { weights.iter().sum() } else { weights[lane - 1] },
        }
    }
}

/// One engine over all layouts: ns a look-up, and a checksum of the answers. A layout with few look-ups
/// is run several times, so that many lie between two looks at the clock.
#[expect(clippy::cast_precision_loss, reason = "times and counts far below 2^53")]
fn run_lane(lanes: &[Lane<'_>], engine: usize) -> Option<(f64, u64)> {
    let (mut weighted, mut weights, mut checksum) = (0.0, 0.0, 0_u64);
    let batch_of = (SAMPLE / lanes.len().max(1)).clamp(BLOCK, 4 * BLOCK);
    for lane in lanes {
        let passes = batch_of.div_ceil(lane.lookups.len());
        let (time, sum) = with_engine!(lane.engines[engine], engine => batch(engine, &lane.lookups, passes));
        checksum = checksum.wrapping_add(sum);
        let ns = time.as_nanos() as f64 / (passes * lane.lookups.len()) as f64;
        weighted += ns * lane.weight as f64;
        weights += lane.weight as f64;
    }
    (weights > 0.0).then(|| (weighted / weights, checksum))
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

/// At most about `most` look-ups, in whole blocks evenly spaced over all.
fn thin(lookups: &[Lookup], most: usize) -> Vec<Lookup> {
    if lookups.len() <= most {
        return lookups.to_vec();
    }
    let blocks: Vec<&[Lookup]> = lookups.chunks(BLOCK).collect();
    let wanted = most.div_ceil(BLOCK).clamp(1, blocks.len());
    (0..wanted).flat_map(|block| blocks[block * blocks.len() / wanted].iter().copied()).collect()
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
        let lookup = |event| Lookup { addr: u64::from(event), last: 0, event, class: 0 };
        let lookups: Vec<Lookup> = (0..100_000).map(lookup).collect();
        let thinned = thin(&lookups, 4096);
        assert_eq!(thinned.len(), 4096);
        assert!(
            thinned
                .chunks(BLOCK)
                .all(|chunk| chunk.windows(2).all(|pair| pair[1].event == pair[0].event + 1))
        );
        assert!(thinned[4095].event > 80_000, "{}", thinned[4095].event);
        assert_eq!(thin(&lookups[..10], 4096).len(), 10);
    }
}
