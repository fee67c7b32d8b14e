//! The A/A control: how often the same procedure finds something where nothing differs.

use super::Options;
use super::rows::{Drawn, Pair};
use super::run::Observed;
use super::verdict::{self, CHANGE, SIGNIFICANT, Verdict, judge};
use crate::model::Probe;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use std::collections::BTreeMap;

/// Resamples of each run's blocks.
const REPLICATES: usize = 100;
const SEED: u64 = 0xaa;

/// Runs and replicates drawn for each side.
type Picks = [Vec<(usize, usize)>; 2];

/// What comparing the before runs with themselves gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Control {
    /// Simulated comparisons, each with as many runs on either side as the real one.
    pub comparisons: usize,
    /// Of them, with some figure significant at 5 %.
    pub significant: usize,
    /// Of them, with some figure called faster or slower.
    pub changed: usize,
    /// At most 5 % and 1 %, and something could have been found.
    pub passed: bool,
    /// Why it says nothing, or what it says.
    pub words: String,
}

/// Draws both sides from the before runs (runs with replacement, blocks within them), and judges them like the
/// real ones, `options.control` times.
pub(crate) fn control(pairs: &[Pair<'_>], exact: bool, options: &Options) -> Control {
    let nothing = |words: &str| Control { words: words.to_owned(), ..Control::default() };
    if exact {
        let words =
            "instructions are counted, so runs of one kernel do not differ and there is nothing to resample";
        return Control { passed: true, ..nothing(words) };
    }
    let pairs: Vec<&Pair<'_>> = pairs.iter().filter(|pair| pair.reasons.is_empty()).collect();
    if pairs.iter().all(|pair| pair.before.len() < super::LEAST_RUNS) {
        return nothing("the control takes at least 3 runs before; record more");
    }
    let mut rng = SmallRng::seed_from_u64(SEED);
    // Figures of the same calls are drawn together, and so are all kinds of the same run.
    let mut drawn: BTreeMap<Drawn, Vec<Vec<Observed>>> = BTreeMap::new();
    for (place, pair) in pairs.iter().enumerate() {
        drawn.entry(pair.drawn_with(place)).or_insert_with(|| {
            let resample = |run: &&Observed| run.resample(REPLICATES, rng.random());
            let fixed = |values: Vec<Vec<f64>>| values.into_iter().map(Observed::fixed).collect();
            pair.before.iter().map(resample).map(fixed).collect()
        });
    }
    let mut found = Control { comparisons: options.control, ..Control::default() };
    let mut feasible = false;
    for _ in 0..options.control {
        let mut picks: BTreeMap<(Probe, u64), Picks> = BTreeMap::new();
        for pair in &pairs {
            picks.entry((pair.probe, pair.size)).or_insert_with(|| {
                [pair.before.len(), pair.after.len()].map(|runs| {
                    let pick = |_| (rng.random_range(0..pair.before.len()), rng.random_range(0..REPLICATES));
                    (0..runs).map(pick).collect()
                })
            });
        }
        let simulated: Vec<Pair<'_>> = pairs
            .iter()
            .enumerate()
            .filter_map(|(place, pair)| {
                let runs = drawn.get(&pair.drawn_with(place))?;
                let [before, after] = picks.get(&(pair.probe, pair.size))?;
                let take = |picks: &[(usize, usize)]| {
                    picks.iter().filter_map(|(run, replicate)| runs.get(*run)?.get(*replicate)).collect()
                };
                Some(Pair { before: take(before), after: take(after), ..(*pair).clone() })
            })
            .collect();
        let judged = judge(&simulated, false, options.threshold);
        feasible |= judged.iter().any(|one| one.verdict != Verdict::TooFewRuns);
        let significant = |one: &verdict::Judged| one.p_adjusted.is_some_and(|p| p <= SIGNIFICANT);
        found.significant += usize::from(judged.iter().any(significant));
        let changed = |one: &verdict::Judged| matches!(one.verdict, Verdict::Slower | Verdict::Faster);
        found.changed += usize::from(judged.iter().any(changed));
    }
    let within = |count: usize, share: f64| count as f64 <= share * options.control as f64;
    found.passed = feasible && within(found.significant, SIGNIFICANT) && within(found.changed, CHANGE);
    found.words = match (feasible, found.passed) {
        (false, _) => "with so few runs nothing could be found, so it says nothing",
        (true, true) => "as seldom as it should be",
        (true, false) => "more often than in 5 % and 1 % of cases: do not trust the verdicts of these runs",
    }
    .to_owned();
    found
}
