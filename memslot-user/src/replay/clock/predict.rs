//! What the calls would have taken: observed, less what the kernel's own search cost, plus what the engine's
//! search takes by the same clock.

use super::groups;
use super::times::{EngineTime, EngineTimes, SameClock, SameClockEngine};
use crate::engine::EngineId;
use crate::model::SearchLength;
use crate::recording::Recording;
use crate::replay::engines::{Answer, Built, with_engine};
use crate::replay::event::Event;
use crate::replay::fold::Group;
use crate::replay::outcome::{Fit, Interval, Prediction, ProbeReplay, Quantiles};
use crate::replay::run::{self, Options, Report};
use crate::stats::Sample;

/// Adds the prediction by the engines' times to replays of the same recording, where their engines were
/// timed. `options` as in the replay.
///
/// # Errors
/// The recording cannot be read.
pub fn predict(
    recording: &Recording,
    times: &EngineTimes,
    options: &Options,
    replays: &mut [ProbeReplay],
    report: Report<'_>,
) -> Result<(), run::Error> {
    for replay in replays {
        let timed: Vec<Timed<'_>> = EngineId::ALL
            .into_iter()
            .filter(|id| replay.engines.iter().any(|engine| engine.engine == id.name()))
            .filter_map(|id| {
                let of_engine = |time: &&EngineTime| time.probe == replay.probe && time.engine == id.name();
                Some(Timed { id, time: times.engines.iter().find(of_engine)?, sum: Sum::default() })
            })
            .collect();
        if timed.is_empty() {
            continue;
        }
        let engines = exchange(recording, replay, timed, options, report)?;
        replay.check.same_clock = Some(SameClock { exact: times.exact, tool: times.tool.clone(), engines });
    }
    Ok(())
}

/// An engine and the latencies with it.
struct Timed<'a> {
    id: EngineId,
    time: &'a EngineTime,
    sum: Sum,
}

/// Latencies with the search exchanged: as estimated, and at the ends of the intervals.
#[derive(Default)]
struct Sum {
    value: Sample,
    low: Sample,
    high: Sample,
    /// A length is beyond those that were timed.
    beyond: bool,
}

fn exchange(
    recording: &Recording,
    replay: &ProbeReplay,
    mut timed: Vec<Timed<'_>>,
    options: &Options,
    report: Report<'_>,
) -> Result<Vec<SameClockEngine>, run::Error> {
    if let Some(fit) = &replay.fit {
        groups(recording, replay.probe, options, report, &mut |events, group| {
            for timed in &mut timed {
                timed.add(events, group, fit);
            }
        })?;
    }
    Ok(timed
        .into_iter()
        .map(|timed| SameClockEngine {
            engine: timed.id.name().to_owned(),
            ns_per_lookup: timed.time.mean,
            predicted: timed.sum.prediction(),
        })
        .collect())
}

impl Timed<'_> {
    fn add(&mut self, events: &[Event], group: &Group<'_>, fit: &Fit) {
        // An engine that cannot be built is what the replay itself reports.
        let Ok(built) = Built::new(self.id, group.ranges, group.kernel) else { return };
        let mut costs = vec![Interval::default(); events.len()];
        for lookup in group.lookups {
            let mut length = SearchLength::default();
            with_engine!(&built, engine => engine.answer(lookup, &mut length));
            let place = lookup.event as usize;
            let (Some(sum), Some(ns)) = (costs.get_mut(place), self.time.of_visited(length.visited)) else {
                continue;
            };
            let timed = &self.time.by_visited;
            self.sum.beyond |= timed.last().is_some_and(|last| length.visited > last.visited)
                || timed.first().is_some_and(|first| length.visited < first.visited);
            *sum = Interval { value: sum.value + ns.value, low: sum.low + ns.low, high: sum.high + ns.high };
        }
        // Where a last-used slot answers there is no cost; where the kernel's did, it visited no node.
        for (event, cost) in events.iter().zip(costs) {
            self.sum.add(event, cost, fit.slope);
        }
    }
}

impl Sum {
    fn add(&mut self, event: &Event, cost: Interval, slope: Interval) {
        #[expect(clippy::cast_precision_loss, reason = "latencies far below 2^53 ns")]
        let observed = event.latency as f64;
        let visited = f64::from(event.visited());
        self.value.add(whole(observed - slope.value * visited + cost.value));
        self.low.add(whole(observed - slope.high * visited + cost.low));
        self.high.add(whole(observed - slope.low * visited + cost.high));
    }

    fn prediction(&self) -> Option<Prediction> {
        let [p50, p90, p99] = self.value.quantiles([500, 900, 990])?;
        let [low] = self.low.quantiles([500])?;
        let [high] = self.high.quantiles([500])?;
        Some(Prediction {
            latency_ns: Quantiles { p50, p90, p99 },
            median_ns: Interval { value: p50, low: low.min(p50), high: high.max(p50) },
            extrapolates: self.beyond,
        })
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast")]
fn whole(ns: f64) -> u64 {
    ns.round().max(0.0) as u64
}
