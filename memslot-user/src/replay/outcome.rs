//! What a replay found: the figures that tables, charts and `summary.json` show.

use super::clock::SameClock;
use crate::model::Probe;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A figure with its interval at 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Interval {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Search lengths and how many look-ups had each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
#[serde(transparent)]
pub struct Lengths(pub BTreeMap<u32, u64>);

impl Lengths {
    /// Counts one look-up.
    pub fn add(&mut self, length: u32) {
        *self.0.entry(length).or_default() += 1;
    }

    /// How many look-ups.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    /// The length of a rank in per mille (500 is the median), which is always one that occurred
    /// (nearest rank); `None` of no look-ups.
    #[must_use]
    pub fn quantile(&self, per_mille: u32) -> Option<u32> {
        let rank = (u128::from(self.total()) * u128::from(per_mille)).div_ceil(1000).max(1);
        let mut seen = 0_u128;
        self.0.iter().find_map(|(length, count)| {
            seen += u128::from(*count);
            (seen >= rank).then_some(*length)
        })
    }

    /// Mean length; 0 where there is none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    pub fn mean(&self) -> f64 {
        let total = self.total();
        if total == 0 {
            return 0.0;
        }
        let sum: u128 = self.0.iter().map(|(&length, &count)| u128::from(length) * u128::from(count)).sum();
        sum as f64 / total as f64
    }
}

/// Quantiles of a latency, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
}

/// Latency as a straight line of the search length, fitted to the events that searched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Fit {
    /// ns that a call takes apart from the search.
    pub intercept: Interval,
    /// ns for every further node visited.
    pub slope: Interval,
    /// Share of the variance of the medians by length that the line explains, 0 to 1.
    pub r_squared: f64,
    /// Events that it rests on.
    pub events: u64,
    /// Smallest and largest search length observed; beyond them a prediction extrapolates.
    pub range: (u32, u32),
}

impl Fit {
    /// Does the recording tell what a node costs? Not where the slope's interval holds 0.
    #[must_use]
    pub fn tells(&self) -> bool {
        !(self.slope.low <= 0.0 && self.slope.high >= 0.0)
    }
}

/// A line for one class of events (hits and misses apart), and how well it tells the latency of events
/// that it was not fitted to.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct ClassFit {
    /// Which events.
    pub class: String,
    /// The line of all of them; `None` where `reason` says why.
    pub fit: Option<Fit>,
    /// Why there is no line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Latency less the line, of the events held out, ns.
    pub residuals: Option<Residuals>,
}

/// What a line leaves unexplained. A fifth of the events, in blocks, is held out; line and interval come
/// from the others.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Residuals {
    /// Events held out.
    pub held_out: u64,
    /// 2.5th percentile, ns.
    pub low: f64,
    /// Median, ns: far from 0, the line is biased.
    pub median: f64,
    /// 97.5th percentile, ns.
    pub high: f64,
    /// Share of the held-out events within `interval`, which should hold 95 % of them, 0 to 1.
    pub coverage: f64,
    /// The 2.5th and the 97.5th percentile of what the line leaves of the events that it was fitted to, ns.
    #[serde(default)]
    pub interval: (f64, f64),
    /// The events held out, by search length.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_length: Vec<LengthResiduals>,
}

/// What a line leaves unexplained of the held-out events of one search length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct LengthResiduals {
    /// Nodes visited.
    pub length: u32,
    /// Events held out.
    pub held_out: u64,
    /// 2.5th percentile, first quartile, median, third quartile and 97.5th percentile, ns.
    pub quantiles: [f64; 5],
    /// Share of them within the interval, 0 to 1.
    pub coverage: f64,
}

/// Latency that the calls would have had with another engine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Prediction {
    /// Quantiles with the search exchanged.
    pub latency_ns: Quantiles,
    /// Median with the fit's interval.
    pub median_ns: Interval,
    /// The engine's lengths leave the observed range.
    pub extrapolates: bool,
}

/// Look-ups of one kind in one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Steps {
    /// Look-ups.
    pub lookups: u64,
    /// Mean of the nodes or elements visited.
    pub visited_mean: f64,
    /// Most nodes or elements visited.
    pub visited_max: u32,
    /// Nodes or elements visited, look-up by look-up.
    pub visited: Lengths,
    /// Time of one look-up of this kind on the replaying machine, timed apart from the others, ns.
    pub ns_per_lookup: Interval,
}

impl Steps {
    /// Of look-ups of these lengths.
    pub(super) fn new(visited: Lengths, ns_per_lookup: Interval) -> Self {
        let visited_max = visited.0.last_key_value().map_or(0, |(most, _)| *most);
        Self { lookups: visited.total(), visited_mean: visited.mean(), visited_max, visited, ns_per_lookup }
    }
}

/// Look-ups of one class in one engine.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct ClassSteps {
    /// Faults: `hit` (RAM) or `miss` (no slot). Translations: `memory_table_hit`, `memory_table_failed`,
    /// `iotlb_hit` or `iotlb_failed`.
    pub class: String,
    /// Their steps.
    pub steps: Steps,
}

/// What the last-used slots did that stand in front of every engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct LastUsedCheck {
    /// Whose: `recorded` (the vCPU's own, as recorded), simulated `vcpu`, `vm` or `queue`, or `off`.
    pub whose: String,
    /// Accesses that asked one.
    pub asked: u64,
    /// Of them answered, so that no engine was asked.
    pub answered: u64,
    /// Share of those asked that answered, 0 to 1; `None` where none was asked.
    pub hit_rate: Option<f64>,
    /// Faults whose simulated slot was compared with the recorded one (`vcpu` only).
    pub compared: u64,
    /// Of them equal.
    pub agreed: u64,
}

/// `part` of `of`, 0 to 1; `None` of none.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
pub(super) fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// What one engine did with the look-ups of one probe.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct EngineOutcome {
    /// The engine's name.
    pub engine: String,
    /// Which look-ups.
    pub probe: Probe,
    /// Look-ups made.
    pub lookups: u64,
    /// Of them with another answer than `linear`; anything but 0 makes the replay fail.
    pub mismatches: u64,
    /// Mean of `visited`.
    pub visited_mean: f64,
    /// Nodes or elements visited, look-up by look-up.
    pub visited: Lengths,
    /// Time of one look-up on the replaying machine, ns.
    pub ns_per_lookup: Interval,
    /// Hits and misses apart; classes without look-ups are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassSteps>,
    /// Latency predicted, where a fit was possible.
    pub predicted: Option<Prediction>,
}

/// The replay of one probe's look-ups.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct ProbeReplay {
    /// Which.
    pub probe: Probe,
    /// Look-ups in the recording: faults that searched, or searches of translations.
    pub lookups: u64,
    /// Events left out, by reason (`no layout`, `ambiguous generation`, …).
    pub left_out: BTreeMap<String, u64>,
    /// Search lengths that the kernel had.
    pub observed: Lengths,
    /// Latency that the calls had, ns.
    pub latency_ns: Quantiles,
    /// The cost of a step, where search lengths vary enough to tell.
    pub fit: Option<Fit>,
    /// Why there is no fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_fit: Option<String>,
    /// By engine.
    pub engines: Vec<EngineOutcome>,
    /// How far the replay can be trusted.
    #[serde(default)]
    pub check: Check,
}

/// What a replay knows about its own soundness.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Check {
    /// Events that were joined with their layout.
    pub events: u64,
    /// Of them in the sample on which fit, predictions and residuals rest; all of them where a recording
    /// is short enough. Everything else counts every event.
    #[serde(default)]
    pub sampled: u64,
    /// The last-used slots in front of the engines.
    #[serde(default)]
    pub last_used: LastUsedCheck,
    /// Faults that met an MMIO entry cached in the page table: no search, and no look-up of any engine.
    #[serde(default)]
    pub mmio_cached: u64,
    /// Events whose recorded search length was compared with the model of the kernel's tree.
    pub compared: u64,
    /// Of them with another number of nodes visited.
    pub visited_differ: u64,
    /// Of them with another number of nodes touched.
    pub touched_differ: u64,
    /// Which events the fit rests on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fit_basis: Option<String>,
    /// The line of every class of events; that of the class with most events makes the predictions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassFit>,
    /// The engines by the recording's own clock, where they were timed by it, and the prediction from that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same_clock: Option<SameClock>,
    /// Look-ups that were timed, a round.
    pub timed_lookups: u64,
    /// Rounds of timing.
    pub rounds: u32,
    /// What else a reader must know, e.g. that a table was cut off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ProbeReplay {
    /// Look-ups, over all engines, with another answer than `linear`.
    #[must_use]
    pub fn mismatches(&self) -> u64 {
        self.engines.iter().map(|engine| engine.mismatches).sum()
    }

    /// Every answer was right, and the kernel searched as the model says.
    #[must_use]
    pub fn sound(&self) -> bool {
        self.mismatches() == 0 && self.check.visited_differ == 0 && self.check.touched_differ == 0
    }
}
