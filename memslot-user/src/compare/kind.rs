//! What is compared: kinds of calls, and figures of them.

use crate::digest::Group;
use crate::model::Probe;
use serde::Serialize;

/// Calls whose figures are compared as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// All calls of a probe: for search length and share of time.
    All(Probe),
    /// RAM faults, whether the last-used slot answered or a search: a patch may turn hits into misses.
    Ram,
    /// Calls of one kind.
    Group(Group),
}

impl Kind {
    /// The name in tables and charts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::All(_) => "All calls",
            Self::Ram => "RAM, hit or miss",
            Self::Group(group) => group.name(),
        }
    }

    /// The name in JSON.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::All(_) => "all",
            Self::Ram => "ram",
            Self::Group(group) => group.key(),
        }
    }
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// A quantile of the latency, per mille.
    Quantile(u32),
    /// Mean number of nodes that a search visits.
    SearchLength,
    /// Share of the time of the vCPUs or workers that they spend in the function.
    Share,
}

/// The quantiles that are tested, per mille.
pub const TESTED: [u32; 4] = [500, 900, 990, 999];

/// The levels at which a run's latency is kept: those tested, and every twentieth for the shift function.
pub const LEVELS: [u32; 21] =
    [50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 800, 850, 900, 950, 990, 999];

/// How many of [`LEVELS`] the shift function has.
pub const SHIFT_LEVELS: usize = 19;

/// The place of a level in [`LEVELS`].
pub(crate) fn place(level: u32) -> usize {
    LEVELS.partition_point(|other| *other < level).min(LEVELS.len() - 1)
}

/// Calls that a run must have for a quantile: ten beyond it, or the figure is that of a few chance calls.
#[must_use]
pub fn calls_needed(level: u32) -> u64 {
    10_000 / u64::from(1000 - level.min(999)).max(1)
}

impl Figure {
    /// The name in tables and JSON: `p50`, `p99.9`, `search_length`, `share_of_time`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Quantile(level) if level % 10 == 0 => format!("p{}", level / 10),
            Self::Quantile(level) => format!("p{}.{}", level / 10, level % 10),
            Self::SearchLength => "search_length".into(),
            Self::Share => "share_of_time".into(),
        }
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Instructions: the guest's nanoseconds of the exact mode.
    Instructions,
    /// Nodes visited, on the mean.
    Nodes,
    /// A share of 0 to 1.
    Share,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_needs_ten_calls_beyond_it() {
        assert_eq!(TESTED.map(calls_needed), [20, 100, 1000, 10_000]);
        assert_eq!(TESTED.map(|level| LEVELS[place(level)]), TESTED);
        assert!(LEVELS[..SHIFT_LEVELS].iter().all(|level| level % 50 == 0) && LEVELS[SHIFT_LEVELS] == 990);
        assert_eq!(TESTED.map(|level| Figure::Quantile(level).name()), ["p50", "p90", "p99", "p99.9"]);
    }
}
