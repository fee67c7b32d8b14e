//! From figures of runs to a word.

use super::kind::Figure;
use super::rows::Pair;
use crate::chart::text::{figure, share};
use crate::stats::{cliffs_delta, hodges_lehmann, holm, least_p, mann_whitney, median};
use serde::Serialize;
use std::fmt;

/// Adjusted p from which on a difference is called significant.
pub const SIGNIFICANT: f64 = 0.05;
/// Adjusted p that a change takes: of a hundred comparisons of equal kernels one at most may call one.
pub const CHANGE: f64 = 0.01;

/// What became of a figure. In rising order of how much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing was found, or nothing beyond the threshold.
    NoDifference,
    /// It fell by the threshold or more.
    Faster,
    /// No data of so few runs could show a change.
    TooFewRuns,
    /// The sides differ in more than the kernel.
    NotComparable,
    /// It rose by the threshold or more.
    Slower,
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::NoDifference => "no difference found",
            Self::Faster => "faster",
            Self::TooFewRuns => "too few runs to tell",
            Self::NotComparable => "not comparable",
            Self::Slower => "slower",
        })
    }
}

/// A pair with its verdict.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    /// Every run of a side gave the same figure, as the exact mode promises.
    pub(crate) exact: bool,
    /// Shift of the runs' figures, in the figure's unit, and relative to the median before.
    pub(crate) difference: Option<f64>,
    pub(crate) change: Option<f64>,
    pub(crate) p: Option<f64>,
    pub(crate) p_adjusted: Option<f64>,
    /// Cliff's delta over runs.
    pub(crate) effect: Option<f64>,
    /// Why, in words.
    pub(crate) words: String,
}

/// Judges all pairs: they are one family of tests.
pub(crate) fn judge(pairs: &[Pair<'_>], exact_clock: bool, threshold: f64) -> Vec<Judged> {
    let mut judged: Vec<Judged> = pairs.iter().map(|pair| look(pair, exact_clock)).collect();
    let tested: Vec<usize> = (0..judged.len()).filter(|place| judged[*place].p.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|place| judged[*place].p).collect();
    for (place, p) in tested.iter().zip(holm(&p)) {
        judged[*place].p_adjusted = Some(p);
    }
    for (pair, one) in pairs.iter().zip(&mut judged) {
        (one.verdict, one.words) = decide(pair, one, tested.len(), threshold);
    }
    judged
}

fn look(pair: &Pair<'_>, exact_clock: bool) -> Judged {
    let (before, after) = (pair.values(&pair.before), pair.values(&pair.after));
    let same = |values: &[f64]| values.windows(2).all(|two| two[0] == two[1]);
    let exact = exact_clock && same(&before) && same(&after);
    let difference = hodges_lehmann(&before, &after);
    let centre = median(&mut before.clone());
    let change = difference.zip(centre).and_then(|(difference, centre)| relative(difference, centre));
    let comparable = pair.reasons.is_empty();
    Judged {
        verdict: Verdict::NotComparable,
        exact,
        difference,
        change,
        p: (comparable && !exact).then(|| mann_whitney(&before, &after)),
        p_adjusted: None,
        effect: comparable.then(|| cliffs_delta(&before, &after)),
        words: String::new(),
    }
}

/// The difference as a share of what was; infinite where nothing was.
pub(crate) fn relative(difference: f64, before: f64) -> Option<f64> {
    if difference == 0.0 {
        return Some(0.0);
    }
    (before != 0.0).then(|| difference / before).filter(|change| change.is_finite())
}

fn decide(pair: &Pair<'_>, one: &Judged, family: usize, threshold: f64) -> (Verdict, String) {
    if !pair.reasons.is_empty() {
        return (Verdict::NotComparable, pair.reasons.join("; "));
    }
    let difference = one.difference.unwrap_or(0.0);
    // From nothing to something is a change of any size.
    let beyond = difference != 0.0 && one.change.is_none_or(|change| change.abs() >= threshold);
    let way = if difference > 0.0 { Verdict::Slower } else { Verdict::Faster };
    if one.exact {
        let verdict = if beyond { way } else { Verdict::NoDifference };
        return (verdict, exactly(pair.figure, difference, beyond, threshold));
    }
    let (p, runs) = (one.p_adjusted.unwrap_or(1.0), (pair.before.len(), pair.after.len()));
    if !feasible(runs, family) {
        let words = format!(
            "no figures of {} + {} runs could show a change among {family} comparisons; {} a side could",
            runs.0,
            runs.1,
            runs_needed(family)
        );
        return (Verdict::TooFewRuns, words);
    }
    if p <= CHANGE && beyond {
        return (way, String::new());
    }
    let words = if p > SIGNIFICANT {
        String::new()
    } else if beyond {
        format!("significant at {}, not at the {} that a change takes", share(SIGNIFICANT), share(CHANGE))
    } else {
        format!("significant, but below the threshold of {}", share(threshold))
    };
    (Verdict::NoDifference, words)
}

fn exactly(of: Figure, difference: f64, beyond: bool, threshold: f64) -> String {
    if difference == 0.0 {
        return "exact: equal".into();
    }
    let what = match of {
        Figure::Quantile(_) => format!("{} instructions", figure(difference.abs())),
        Figure::SearchLength => format!("{} nodes", figure(difference.abs())),
        Figure::Share => format!("{} percentage points", figure(difference.abs() * 100.0)),
    };
    let way = if difference > 0.0 { "more" } else { "fewer" };
    let small = if beyond { String::new() } else { format!(", below the threshold of {}", share(threshold)) };
    format!("exact: {what} {way}{small}")
}

/// Whether any figures of so many runs could be called a change in a family of so many tests.
fn feasible((before, after): (usize, usize), family: usize) -> bool {
    least_p(before, after) * family as f64 <= CHANGE
}

/// Runs on each side from which on a change can be found among so many comparisons.
pub(crate) fn runs_needed(family: usize) -> usize {
    (1..1000).find(|runs| feasible((*runs, *runs), family)).unwrap_or(1000)
}

/// What is to be said of the verdicts together.
pub(crate) fn notes(pairs: &[Pair<'_>], judged: &[Judged], exact_clock: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let comparable = |one: &&Judged| one.verdict != Verdict::NotComparable;
    if judged.iter().any(|one| one.exact) {
        notes.push("exact: instructions are counted, and every run of a side gave these very figures".into());
    }
    if exact_clock && judged.iter().filter(comparable).any(|one| !one.exact) {
        notes.push(
            "instructions are counted, yet runs of one side differ: they are not of the identical programs and files"
                .into(),
        );
    }
    let family = judged.iter().filter(|one| one.p.is_some()).count();
    if judged.iter().any(|one| one.verdict == Verdict::TooFewRuns) {
        let fewest = pairs.iter().map(|pair| pair.before.len().min(pair.after.len())).min().unwrap_or(0);
        notes.push(format!(
            "too few runs: {family} comparisons take {} runs on each side before any can be called a change, and \
             there are {fewest}; intervals of fewer than {} runs tell of chance within these runs only",
            runs_needed(family),
            super::LEAST_RUNS
        ));
    }
    notes
}
