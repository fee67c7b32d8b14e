//! The hierarchical bootstrap: runs are drawn with replacement, and within each the blocks of its events.

use super::run::Observed;
use crate::stats::{expanded_tail, hodges_lehmann, median, quantile};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

/// Draws of runs.
const DRAWS: usize = 1000;
/// Resamples of each run's blocks, from which the draws take one.
const REPLICATES: usize = 100;
/// With fewer runs on a side, drawing them tells nothing of how runs scatter.
pub const LEAST_RUNS: usize = 3;

/// A figure with its interval at 95 % confidence.
pub use crate::replay::Interval;

/// What an interval tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Nothing varies: the figures are exact.
    Exact,
    /// How runs scatter, and events within them.
    Runs,
    /// How events scatter within these very runs; another run may lie elsewhere.
    WithinRuns,
}

/// Draws of some figures of two sides.
#[derive(Debug)]
pub(crate) struct Resampled {
    pub(crate) basis: Basis,
    /// Runs of the smaller side.
    runs: usize,
    /// By figure and draw: median before, median after, shift.
    pub(crate) draws: Vec<Vec<[f64; 3]>>,
}

impl Resampled {
    /// Draws the figures at some places of the runs' values together; the same seed draws the same.
    pub(crate) fn new(before: &[&Observed], after: &[&Observed], places: &[usize], seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut replicates = |side: &[&Observed]| -> Vec<Vec<Vec<f64>>> {
            side.iter().map(|run| run.resample(REPLICATES, rng.random())).collect()
        };
        let (before, after) = (replicates(before), replicates(after));
        let runs = before.len().min(after.len());
        let basis = if runs < LEAST_RUNS { Basis::WithinRuns } else { Basis::Runs };
        let mut draws = vec![Vec::with_capacity(DRAWS); places.len()];
        for _ in 0..DRAWS {
            let sides = [pick(&before, basis, &mut rng), pick(&after, basis, &mut rng)];
            for (place, draws) in places.iter().zip(&mut draws) {
                let [earlier, later] = sides
                    .each_ref()
                    .map(|side| side.iter().filter_map(|run| run.get(*place).copied()).collect::<Vec<f64>>());
                if let Some(shift) = hodges_lehmann(&earlier, &later) {
                    let centre = |mut values: Vec<f64>| median(&mut values).unwrap_or(f64::NAN);
                    draws.push([centre(earlier), centre(later), shift]);
                }
            }
        }
        Self { basis, runs, draws }
    }

    /// The interval of something computed from each draw of a figure.
    pub(crate) fn interval(&self, figure: usize, value: f64, of: impl Fn(&[f64; 3]) -> f64) -> Interval {
        let mut values: Vec<f64> =
            self.draws.get(figure).into_iter().flatten().map(of).filter(|value| value.is_finite()).collect();
        values.sort_unstable_by(f64::total_cmp);
        let tail = match self.basis {
            Basis::Runs => expanded_tail(self.runs),
            _ => 0.025,
        };
        let end = |p: f64| quantile(&values, p).unwrap_or(value);
        Interval { value, low: end(tail), high: end(1.0 - tail) }
    }

    /// By how much the scatter of few runs is understated by the bootstrap.
    pub(crate) fn expansion(&self) -> f64 {
        match self.basis {
            Basis::Runs => {
                let runs = self.runs as f64;
                (runs / (runs - 1.0)).sqrt() * crate::stats::t_two_sided_95(self.runs - 1) / 1.959_964
            }
            _ => 1.0,
        }
    }
}

fn pick<'a>(side: &'a [Vec<Vec<f64>>], basis: Basis, rng: &mut SmallRng) -> Vec<&'a [f64]> {
    (0..side.len())
        .filter_map(|place| {
            let run = if basis == Basis::Runs { rng.random_range(0..side.len()) } else { place };
            let replicates = &side[run];
            (!replicates.is_empty()).then(|| replicates[rng.random_range(0..replicates.len())].as_slice())
        })
        .collect()
}
