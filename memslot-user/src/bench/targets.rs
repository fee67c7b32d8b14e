//! What the engines are held to.

use super::measure::{Figure, Interval};
use super::{Pattern, ReplayFigure};
use serde::Serialize;

/// One target in one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Target {
    /// What is asked for.
    pub target: String,
    /// In which layout; 0 where that says nothing.
    pub slots: u32,
    /// With which addresses.
    pub pattern: Option<Pattern>,
    /// The figure.
    pub measured: Interval,
    /// What it must not exceed.
    pub limit: f64,
    /// Does the median keep to the limit?
    pub met: bool,
}

/// Slots from which our engine must be the faster one.
const FASTER_FROM: u32 = 32;
/// Events of the replay that has a limit of time.
const TIMED_EVENTS: u64 = 10_000_000;

fn target(target: String, figure: &Figure, measured: Interval, limit: f64) -> Target {
    let met = measured.value <= limit;
    Target { target, slots: figure.slots, pattern: Some(figure.pattern), measured, limit, met }
}

/// All targets of the figures, and of the replay if that was measured.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "bytes far below 2^53")]
pub fn targets(figures: &[Figure], replay: Option<&ReplayFigure>) -> Vec<Target> {
    let mut all: Vec<Target> = figures.iter().filter_map(of_figure).collect();
    if let Some(replay) = replay {
        let exact = |value| Interval { value, low: value, high: value };
        let mut add = |what: String, value: f64, limit: f64| {
            let (measured, met) = (exact(value), value <= limit);
            all.push(Target { target: what, slots: 0, pattern: None, measured, limit, met });
        };
        let events = replay.events;
        add(format!("replay of {events} events, MB"), replay.max_rss_bytes as f64 / 1e6, 512.0);
        // The time allowed grows with the events.
        let limit = 15.0 * events as f64 / TIMED_EVENTS as f64;
        add(format!("replay of {events} events, s"), replay.seconds, limit);
    }
    all
}

fn of_figure(figure: &Figure) -> Option<Target> {
    let intervals = &figure.intervals;
    let what = |over: &str| format!("{} / {over}", figure.engine);
    match figure.engine {
        "sorted_array" => {
            Some(target(what("partition_point"), figure, intervals.ratio_to_partition_point, 1.1))
        }
        "rbtree" | "interval_tree" | "wbtree" => {
            Some(target(what("btreemap"), figure, intervals.ratio_to_btreemap, 1.0))
        }
        "eytzinger" => {
            let limit = if figure.slots < FASTER_FROM { 1.05 } else { 1.0 };
            Some(target(what("sorted_array"), figure, intervals.ratio_to_sorted_array, limit))
        }
        _ => None,
    }
}
