//! Two kernels, or two settings of one, before and after: what changed, by how much, and how sure that is.
//!
//! A recording is a run and counts as one observation; its events only say how certain its own figures are.
//! `docs/methodology.md` says what the figures mean, `docs/compare.md` what the JSON holds.

mod comparable;
mod control;
mod gate;
mod kind;
mod markdown;
mod outcome;
mod predict;
mod read;
mod resample;
mod rows;
mod run;
mod shift;
#[cfg(test)]
pub(crate) mod simulate;
#[cfg(test)]
mod tests;
mod text;
mod verdict;

pub use comparable::{Clock, Setting};
pub use control::Control;
pub use gate::{Condition, Gate, Percent};
pub use kind::{Figure, Kind, LEVELS, SHIFT_LEVELS, TESTED, Unit, calls_needed};
pub use markdown::markdown;
pub use outcome::{Comparison, Mean, Row, RunSummary, SCHEMA, SideSummary};
pub use predict::{Foretold, PredictError, Search, predict};
pub use read::read;
pub use resample::{Basis, Interval, LEAST_RUNS};
pub use rows::sized;
pub use run::{KindRun, Observed, Pooled, ProbeRun, Run};
pub use shift::{Level, Shift};
#[cfg(test)]
pub(crate) use simulate as simulated;
pub(crate) use text::signed;
pub use text::text;
pub use verdict::{CHANGE, SIGNIFICANT, Verdict};

use crate::model::Probe;
use crate::stats::deviation;
use rows::{Pair, Stratum};

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Relative difference below which a change is of no account.
    pub threshold: f64,
    /// Simulated comparisons of the before runs with themselves; 0 for none.
    pub control: usize,
    /// Only these probes; empty for all.
    pub probes: Vec<Probe>,
}

impl Default for Options {
    fn default() -> Self {
        Self { threshold: 0.02, control: 0, probes: Vec::new() }
    }
}

/// Compares the runs of two sides. `progress` is told what is being done.
#[must_use]
pub fn compare(before: &[Run], after: &[Run], options: &Options, progress: &dyn Fn(&str)) -> Comparison {
    let sides = [before, after];
    let exact =
        sides.iter().all(|side| !side.is_empty() && side.iter().all(|run| Clock::of(run) == Clock::Exact));
    let asked = |probe: Probe| options.probes.is_empty() || options.probes.contains(&probe);
    let strata: Vec<Stratum<'_>> =
        rows::strata(before, after).into_iter().filter(|stratum| asked(stratum.probe)).collect();
    let mut reasons = comparable::of_sides(before, after);
    let mut pairs: Vec<Pair<'_>> = strata.iter().flat_map(Stratum::pairs).collect();
    if pairs.is_empty() {
        reasons.push("workload: no kind of call has the 20 calls in every run that a median takes".into());
    }
    for pair in &mut pairs {
        pair.reasons.splice(0..0, reasons.iter().cloned());
    }
    let judged = verdict::judge(&pairs, exact, options.threshold);
    let rows = outcome::rows(&pairs, &judged, exact, progress);
    let shifts = shift::shifts(&strata, &pairs, exact, progress);
    let mut notes = comparable::notes(before, after, exact);
    notes.extend(verdict::notes(&pairs, &judged, exact));
    let control = (options.control > 0).then(|| {
        progress("control: the before runs against themselves");
        control::control(&pairs, exact, options)
    });
    Comparison {
        schema: SCHEMA,
        tool: env!("MEMSLOT_VERSION").to_owned(),
        verdict: rows.iter().map(|row| row.verdict).max().unwrap_or(Verdict::NotComparable),
        threshold: options.threshold,
        significant_at: SIGNIFICANT,
        change_at: CHANGE,
        exact,
        before: SideSummary::new(before),
        after: SideSummary::new(after),
        reasons,
        notes,
        settings: comparable::settings(before, after),
        comparisons: rows,
        shifts,
        means: means(&strata, exact),
        control,
        foretold: Vec::new(),
    }
}

/// Mean (and standard deviation over runs) of each kind of call on each side.
fn means(strata: &[Stratum<'_>], exact: bool) -> Vec<Mean> {
    let mut means = Vec::new();
    for stratum in strata {
        for kind in stratum.kinds() {
            for (side, name) in ["before", "after"].into_iter().enumerate() {
                let runs = stratum.kind_runs(side, kind);
                let values: Vec<f64> = runs.iter().map(|run| run.mean).collect();
                if values.is_empty() {
                    continue;
                }
                means.push(Mean {
                    probe: stratum.probe,
                    size: stratum.size,
                    kind: kind.key(),
                    kind_name: kind.name(),
                    side: name,
                    unit: if exact { Unit::Instructions } else { Unit::Ns },
                    mean: values.iter().sum::<f64>() / values.len() as f64,
                    deviation: (values.len() > 1).then(|| deviation(&values)),
                    runs: values.len(),
                    calls: runs.iter().map(|run| run.calls).sum(),
                });
            }
        }
    }
    means
}
