//! Times the engines by the recording's clock, length by length.
//!
//! A batch is one engine, one layout, and look-ups that visit the same number of nodes, again and again.
//! The same loop with an engine that does nothing is timed beside it and taken off: the clock, the loop and
//! the reading of the look-ups are no search.

use super::groups;
use super::times::{CLOCK, EngineTime, EngineTimes, Error, LengthTime, check_clock};
use crate::engine::{EngineId, Observer};
use crate::model::{Probe, SearchLength};
use crate::probe;
use crate::recording::Recording;
use crate::replay::engines::{Answer, Built, Lookup, usual, with_engine};
use crate::replay::outcome::{Interval, Lengths};
use crate::replay::run::{Options, Progress, Report};
use crate::stats::{median, median_interval};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Layouts that are timed: those with most look-ups.
const MOST_GROUPS: usize = 16;
/// Lengths of an engine that are timed. A list finds every range at a length of its own, and what that costs depends on
/// where the ranges before it lie: between lengths that are timed there is nothing to go by.
const MOST_LENGTHS: usize = 1024;
/// Look-ups of a batch that are not the same.
const MOST_LOOKUPS: usize = 256;
/// Nodes that all batches of an engine visit together, about, and those of one batch at the most.
const ALL_NODES: usize = 1 << 22;
const MOST_NODES: usize = 65_536;
/// Repeats of a batch, after one that warms up.
const ROUNDS: u32 = 11;
/// Batches that took the same time to so many ns are the same.
const SAME: f64 = 2.0;

/// A layout with its engines and look-ups.
struct Kept {
    engines: Vec<Built>,
    lookups: Vec<Lookup>,
}

/// One engine over look-ups of one length.
struct Batch {
    group: usize,
    engine: usize,
    visited: u32,
    lookups: Vec<Lookup>,
    passes: usize,
    /// By round: time of the batch, and of a look-up without the empty loop, ns.
    times: Vec<(f64, f64)>,
}

/// Times the engines of a recording that was made on this host since its last boot.
///
/// # Errors
/// This is not the recording's clock, or the recording cannot be read.
pub fn measure(
    recording: &Recording,
    options: &Options,
    tool: &str,
    report: Report<'_>,
) -> Result<EngineTimes, Error> {
    let (host, measured, meta) = (probe::host(), probe::clock(), recording.meta());
    check_clock(meta, &host.kernel, &host.name, measured)?;
    let mut engines = Vec::new();
    let mut same = Vec::new();
    for &probe in &options.probes {
        let ids = options.engines.clone().unwrap_or_else(|| usual(probe));
        let (timed, alike) = of_probe(recording, probe, &ids, options, report)?;
        engines.extend(timed);
        same.extend(alike);
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of batches")]
    let identical = same.iter().sum::<f64>() / same.len().max(1) as f64;
    Ok(EngineTimes {
        schema: EngineTimes::SCHEMA,
        tool: tool.to_owned(),
        kernel: host.kernel,
        clock: CLOCK.to_owned(),
        recording: meta.start,
        measured,
        exact: identical >= 0.9,
        identical,
        rounds: ROUNDS,
        engines,
    })
}

/// The engines over one probe's look-ups, and of each batch the share of rounds that took the same time.
pub(super) fn of_probe(
    recording: &Recording,
    probe: Probe,
    ids: &[EngineId],
    options: &Options,
    report: Report<'_>,
) -> Result<(Vec<EngineTime>, Vec<f64>), Error> {
    let mut kept: Vec<Kept> = Vec::new();
    groups(recording, probe, options, report, &mut |_, group| {
        let built: Result<Vec<Built>, _> =
            ids.iter().map(|id| Built::new(*id, group.ranges, group.kernel)).collect();
        // An engine that cannot be built is what the replay itself reports.
        let Ok(engines) = built else { return };
        let smallest = kept.iter().enumerate().min_by_key(|(_, kept)| kept.lookups.len());
        match smallest.map(|(place, kept)| (place, kept.lookups.len())) {
            _ if group.lookups.is_empty() => return,
            Some((place, least)) if kept.len() == MOST_GROUPS => {
                if least >= group.lookups.len() {
                    return;
                }
                kept.swap_remove(place);
            }
            _ => {}
        }
        kept.push(Kept { engines, lookups: group.lookups.to_vec() });
    })?;
    let mut lengths = vec![Lengths::default(); ids.len()];
    let mut batches = Vec::new();
    for (engine, lengths) in lengths.iter_mut().enumerate() {
        batches.extend(batches_of(engine, &kept, lengths));
    }
    for round in 0..=ROUNDS {
        for batch in &mut batches {
            let engine = &kept[batch.group].engines[batch.engine];
            let time = with_engine!(engine, engine => run(engine, &batch.lookups, batch.passes));
            let empty = run(&Nothing, &batch.lookups, batch.passes);
            // The first round warms up.
            if round > 0 {
                batch.add(time, empty);
            }
        }
        report(Progress {
            stage: "timing by the recording's clock",
            done: round.into(),
            total: Some(ROUNDS.into()),
        });
    }
    let same = batches.iter().filter_map(Batch::same).collect();
    let timed = ids
        .iter()
        .enumerate()
        .map(|(place, id)| {
            let of_engine = batches.iter().filter(|batch| batch.engine == place);
            engine_time(probe, *id, of_engine.filter_map(Batch::figure).collect(), &lengths[place])
        })
        .filter(|engine| engine.lookups > 0)
        .collect();
    Ok((timed, same))
}

/// An engine's batches, lengths ascending; counts all look-ups by length.
fn batches_of(engine: usize, kept: &[Kept], lengths: &mut Lengths) -> Vec<Batch> {
    // Of each length the layout that has most look-ups of it.
    let mut by_length: BTreeMap<u32, (usize, Vec<Lookup>)> = BTreeMap::new();
    for (group, kept) in kept.iter().enumerate() {
        let mut here: BTreeMap<u32, Vec<Lookup>> = BTreeMap::new();
        for lookup in &kept.lookups {
            let mut length = SearchLength::default();
            with_engine!(&kept.engines[engine], engine => engine.answer(lookup, &mut length));
            lengths.add(length.visited);
            here.entry(length.visited).or_default().push(*lookup);
        }
        for (length, lookups) in here {
            let most = by_length.entry(length).or_default();
            if lookups.len() > most.1.len() {
                *most = (group, lookups);
            }
        }
    }
    let chosen = evenly(by_length.into_iter().collect(), MOST_LENGTHS);
    let nodes = (ALL_NODES / chosen.len().max(1)).min(MOST_NODES);
    chosen
        .into_iter()
        .map(|(visited, (group, lookups))| {
            let lookups = evenly(lookups, MOST_LOOKUPS);
            let wanted = (nodes / (visited as usize + 1)).clamp(16, MOST_LOOKUPS);
            let lookups = evenly(lookups, wanted);
            let passes = wanted.div_ceil(lookups.len().max(1));
            Batch { group, engine, visited, lookups, passes, times: Vec::new() }
        })
        .collect()
}

/// At most so many of the values, evenly chosen, the first and the last among them.
fn evenly<T>(values: Vec<T>, most: usize) -> Vec<T> {
    let count = values.len();
    if count <= most {
        return values;
    }
    let mut taken = (0..most).map(|place| place * (count - 1) / (most - 1).max(1)).peekable();
    let keep = |(place, value)| (taken.next_if_eq(&place).is_some()).then_some(value);
    values.into_iter().enumerate().filter_map(keep).collect()
}

impl Batch {
    #[expect(clippy::cast_precision_loss, reason = "times and counts far below 2^53")]
    fn add(&mut self, time: Duration, empty: Duration) {
        let (time, empty) = (time.as_nanos() as f64, empty.as_nanos() as f64);
        let lookups = (self.passes * self.lookups.len()) as f64;
        self.times.push((time, (time - empty) / lookups));
    }

    fn figure(&self) -> Option<LengthTime> {
        let mut rounds: Vec<f64> = self.times.iter().map(|time| time.1).collect();
        rounds.sort_unstable_by(f64::total_cmp);
        let (value, low, high) = median_interval(&rounds)?;
        Some(LengthTime { visited: self.visited, ns: Interval { value, low, high } })
    }

    /// The share of rounds that took what their median took.
    #[expect(clippy::cast_precision_loss, reason = "a number of rounds")]
    fn same(&self) -> Option<f64> {
        let mut rounds: Vec<f64> = self.times.iter().map(|time| time.0).collect();
        let middle = median(&mut rounds)?;
        let same = rounds.iter().filter(|time| (**time - middle).abs() <= SAME).count();
        Some(same as f64 / rounds.len() as f64)
    }
}

fn engine_time(probe: Probe, id: EngineId, by_visited: Vec<LengthTime>, lengths: &Lengths) -> EngineTime {
    let mut engine = EngineTime {
        probe,
        engine: id.name().to_owned(),
        lookups: lengths.total(),
        mean: Interval::default(),
        by_visited,
    };
    let mut sums = [0.0; 3];
    for (length, count) in &lengths.0 {
        let Some(ns) = engine.of_visited(*length) else { continue };
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
        let share = *count as f64 / engine.lookups as f64;
        for (sum, ns) in sums.iter_mut().zip([ns.value, ns.low, ns.high]) {
            *sum += share * ns;
        }
    }
    engine.mean = Interval { value: sums[0], low: sums[1], high: sums[2] };
    engine
}

/// An engine that searches nothing.
struct Nothing;

impl Answer for Nothing {
    #[inline(always)]
    fn answer(&self, lookup: &Lookup, _: &mut impl Observer) -> Option<u32> {
        Some(lookup.event)
    }
}

/// The timed loop, compiled for each engine.
#[inline(never)]
fn run<E: Answer>(engine: &E, lookups: &[Lookup], passes: usize) -> Duration {
    let mut sum = 0_u64;
    let start = Instant::now();
    for _ in 0..passes {
        for lookup in lookups {
            // Nothing of a look-up may be carried over to the next pass.
            let found = engine.answer(black_box(lookup), &mut ());
            sum = sum.rotate_left(1) ^ found.map_or(u64::MAX, u64::from);
        }
    }
    black_box(sum);
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_chosen_spans_all() {
        assert_eq!(evenly((0..10).collect::<Vec<_>>(), 4), [0, 3, 6, 9]);
        assert_eq!(evenly(vec![1, 2], 4), [1, 2]);
        assert_eq!(evenly((0..1000).collect::<Vec<_>>(), 48).len(), 48);
    }

    #[test]
    fn the_empty_loop_is_taken_off_and_an_interrupt_moves_no_figure() {
        let lookup = Lookup { addr: 0, last: 0, event: 0, class: 0 };
        let mut batch = Batch {
            group: 0,
            engine: 0,
            visited: 3,
            lookups: vec![lookup; 4],
            passes: 25,
            times: Vec::new(),
        };
        for round in 0..11 {
            let interrupt = if round == 4 { 9000 } else { 0 };
            batch.add(Duration::from_nanos(5600 + interrupt), Duration::from_nanos(600));
        }
        let ns = batch.figure().unwrap().ns;
        assert_eq!((ns.value, ns.low, ns.high), (50.0, 50.0, 50.0));
        assert!((batch.same().unwrap() - 10.0 / 11.0).abs() < 1e-9);
    }

    #[test]
    fn the_mean_weighs_lengths_by_their_look_ups() {
        let at =
            |visited, ns| LengthTime { visited, ns: Interval { value: ns, low: ns - 1.0, high: ns + 1.0 } };
        let lengths = Lengths([(1, 3), (2, 1), (3, 4)].into());
        let engine =
            engine_time(Probe::PageFault, EngineId::Linear, vec![at(1, 10.0), at(3, 20.0)], &lengths);
        // 3 × 10, 1 × 15 from between the two, 4 × 20.
        assert_eq!((engine.mean.value, engine.mean.low), (125.0 / 8.0, 125.0 / 8.0 - 1.0));
        assert_eq!(engine.lookups, 8);
    }
}
