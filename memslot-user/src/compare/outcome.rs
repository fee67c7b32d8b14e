//! What a comparison found: `compare.json`, and what tables and charts show.

use super::comparable::{Clock, Setting};
use super::control::Control;
use super::kind::{Figure, Unit};
use super::predict::Foretold;
use super::resample::{Basis, Interval, Resampled};
use super::rows::{Drawn, Pair, sized};
use super::run::Run;
use super::shift::Shift;
use super::verdict::{Judged, Verdict, relative};
use crate::model::Probe;
use crate::stats::median;
use serde::Serialize;

/// Version of `compare.json`.
pub const SCHEMA: u32 = 1;

/// A comparison.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Comparison {
    /// [`SCHEMA`]
    pub schema: u32,
    /// Version of memslot that compared.
    pub tool: String,
    /// The gravest of all comparisons' verdicts.
    pub verdict: Verdict,
    /// Relative difference below which a change is of no account.
    pub threshold: f64,
    /// Adjusted p from which on a difference is significant.
    pub significant_at: f64,
    /// Adjusted p that a change takes.
    pub change_at: f64,
    /// Both sides counted instructions for time.
    pub exact: bool,
    /// The runs before.
    pub before: SideSummary,
    /// The runs after.
    pub after: SideSummary,
    /// Why nothing can be compared; each of `comparisons` has these and its own.
    pub reasons: Vec<String>,
    /// What bears on the figures' meaning.
    pub notes: Vec<String>,
    /// Module parameters that differ.
    pub settings: Vec<Setting>,
    /// Figure by figure.
    pub comparisons: Vec<Row>,
    /// Shift functions, where there are calls enough.
    pub shifts: Vec<Shift>,
    /// Mean (stdev) by side.
    pub means: Vec<Mean>,
    /// The before runs against themselves; null where it was not asked for.
    pub control: Option<Control>,
    /// What the runs before foretold of another search; empty where it was not asked for. [`super::predict`] makes it.
    pub foretold: Vec<Foretold>,
}

/// The runs of a side.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SideSummary {
    /// Kernel releases.
    pub kernels: Vec<String>,
    /// What a nanosecond is.
    pub clocks: Vec<Clock>,
    /// Run by run.
    pub runs: Vec<RunSummary>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RunSummary {
    /// Its directory, as given.
    pub name: String,
    /// Its label.
    pub label: Option<String>,
    /// The host.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Kernel version.
    pub kernel_version: String,
    /// It was not cut off.
    pub complete: bool,
    /// Probe by probe, of those with calls.
    pub probes: Vec<ProbeSummary>,
}

/// A probe in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ProbeSummary {
    /// The probe.
    pub probe: Probe,
    /// Slots, regions or vCPUs.
    pub size: u64,
    /// How it was attached.
    pub attached: String,
    /// Calls seen at entry.
    pub entries: u64,
    /// Calls in the recording.
    pub calls: u64,
    /// Calls missing from it.
    pub lost: u64,
}

/// A figure before and after.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// The probe.
    pub probe: Probe,
    /// Slots, regions or vCPUs.
    pub size: u64,
    /// Kind of calls.
    pub kind: &'static str,
    /// The same for people.
    #[serde(skip)]
    pub kind_name: &'static str,
    /// `p50` … `p99.9`, `search_length`, `share_of_time`.
    pub figure: String,
    /// Of `before`, `after`, `difference` and `values`.
    pub unit: Unit,
    /// Median of the runs before; null without any.
    pub before: Option<Interval>,
    /// Median of the runs after.
    pub after: Option<Interval>,
    /// Hodges and Lehmann's shift of the runs' figures.
    pub difference: Option<Interval>,
    /// The same relative to the median before; null where that is 0.
    pub change: Option<Interval>,
    /// What the intervals tell of.
    pub intervals: Basis,
    /// Runs before and after.
    pub runs: [usize; 2],
    /// The figure of each run, before and after.
    pub values: [Vec<f64>; 2],
    /// Of the Mann–Whitney test over runs; null where nothing is tested.
    pub p: Option<f64>,
    /// After Holm's correction over all comparisons.
    pub p_adjusted: Option<f64>,
    /// Cliff's delta over runs: -1 all faster, 1 all slower.
    pub effect: Option<f64>,
    /// The word.
    pub verdict: Verdict,
    /// Why it is not comparable.
    pub reasons: Vec<String>,
    /// Why the verdict is what it is, where the figures alone do not say.
    pub words: String,
}

/// Mean latency of one kind of calls on one side.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Mean {
    /// The probe.
    pub probe: Probe,
    /// Slots, regions or vCPUs.
    pub size: u64,
    /// Kind of calls.
    pub kind: &'static str,
    /// The same for people.
    #[serde(skip)]
    pub kind_name: &'static str,
    /// `before` or `after`.
    pub side: &'static str,
    /// Of `mean` and `deviation`.
    pub unit: Unit,
    /// Mean of the runs' means.
    pub mean: f64,
    /// Standard deviation of the runs' means; null of a single run.
    pub deviation: Option<f64>,
    /// Runs.
    pub runs: usize,
    /// Calls in them.
    pub calls: u64,
}

impl Comparison {
    /// The comparison as JSON, indented, with a final newline.
    ///
    /// # Errors
    /// Never for a comparison made by [`super::compare`].
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// The probes and sizes compared, in order.
    #[must_use]
    pub fn strata(&self) -> Vec<(Probe, u64)> {
        let mut strata: Vec<(Probe, u64)> =
            self.comparisons.iter().map(|row| (row.probe, row.size)).collect();
        strata.dedup();
        strata
    }
}

impl Row {
    /// A change whose interval holds 0 is none: rank test and interval must agree.
    fn doubt(&mut self) {
        let called = matches!(self.verdict, Verdict::Slower | Verdict::Faster);
        let holds = self.difference.is_some_and(|difference| difference.low <= 0.0 && difference.high >= 0.0);
        if called && holds && self.intervals == Basis::Runs {
            self.verdict = Verdict::NoDifference;
            "significant by ranks, but the interval holds 0".clone_into(&mut self.words);
        }
    }

    /// `page_fault, 53 slots`
    #[must_use]
    pub fn stratum(&self) -> String {
        format!("{}, {}", self.probe.name(), sized(self.probe, self.size))
    }
}

impl SideSummary {
    pub(super) fn new(runs: &[Run]) -> Self {
        let mut kernels: Vec<String> = runs.iter().map(|run| run.meta.host.kernel.clone()).collect();
        kernels.sort_unstable();
        kernels.dedup();
        let mut clocks: Vec<Clock> = runs.iter().map(Clock::of).collect();
        clocks.sort_unstable();
        clocks.dedup();
        Self { kernels, clocks, runs: runs.iter().map(RunSummary::new).collect() }
    }
}

impl RunSummary {
    fn new(run: &Run) -> Self {
        let probes = run.probes.iter().map(|(probe, figures)| ProbeSummary {
            probe: *probe,
            size: figures.size,
            attached: figures.attached.clone(),
            entries: figures.entries,
            calls: figures.calls,
            lost: figures.lost,
        });
        let meta = &run.meta;
        Self {
            name: run.name.clone(),
            label: meta.label.clone(),
            host: meta.host.name.clone(),
            kernel: meta.host.kernel.clone(),
            kernel_version: meta.host.kernel_version.clone(),
            complete: meta.complete,
            probes: probes.collect(),
        }
    }
}

/// Rows of the judged pairs, with intervals.
pub(crate) fn rows(pairs: &[Pair<'_>], judged: &[Judged], exact: bool, progress: &dyn Fn(&str)) -> Vec<Row> {
    let mut drawn: Option<(Drawn, Resampled)> = None;
    let mut rows = Vec::with_capacity(pairs.len());
    for (place, (pair, judged)) in pairs.iter().zip(judged).enumerate() {
        let draws = !judged.exact && !pair.before.is_empty() && !pair.after.is_empty();
        if draws {
            // Quantiles of the same calls are drawn together.
            let key = pair.drawn_with(place);
            if drawn.as_ref().is_none_or(|(known, _)| *known != key) {
                progress(&format!("{}, {}: intervals", pair.probe.name(), pair.kind.name()));
                let resampled = Resampled::new(&pair.before, &pair.after, &pair.places(), place as u64);
                drawn = Some((key, resampled));
            }
        }
        let mut row = row(pair, judged, exact, drawn.as_ref().map(|drawn| &drawn.1).filter(|_| draws));
        row.doubt();
        rows.push(row);
    }
    rows
}

fn row(pair: &Pair<'_>, judged: &Judged, exact: bool, drawn: Option<&Resampled>) -> Row {
    let values = [pair.values(&pair.before), pair.values(&pair.after)];
    let interval = |value: Option<f64>, of: &dyn Fn(&[f64; 3]) -> f64| {
        let value = value?;
        Some(drawn.map_or(Interval { value, low: value, high: value }, |drawn| {
            drawn.interval(pair.index(), value, of)
        }))
    };
    let [before, after] = values.clone().map(|mut values| median(&mut values));
    Row {
        probe: pair.probe,
        size: pair.size,
        kind: pair.kind.key(),
        kind_name: pair.kind.name(),
        figure: pair.figure.name(),
        unit: match pair.figure {
            Figure::Quantile(_) if exact => Unit::Instructions,
            Figure::Quantile(_) => Unit::Ns,
            Figure::SearchLength => Unit::Nodes,
            Figure::Share => Unit::Share,
        },
        before: interval(before, &|draw| draw[0]),
        after: interval(after, &|draw| draw[1]),
        difference: interval(judged.difference, &|draw| draw[2]),
        change: interval(judged.change, &|draw| relative(draw[2], draw[0]).unwrap_or(f64::NAN)),
        intervals: drawn.map_or(Basis::Exact, |drawn| drawn.basis),
        runs: [pair.before.len(), pair.after.len()],
        values,
        p: judged.p,
        p_adjusted: judged.p_adjusted,
        effect: judged.effect,
        verdict: judged.verdict,
        reasons: pair.reasons.clone(),
        words: judged.words.clone(),
    }
}
