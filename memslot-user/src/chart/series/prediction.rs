//! Latency predicted for each engine beside the latency observed in the kernel.

use super::super::text;
use crate::digest::Digest;
use crate::model::Probe;
use crate::replay::clock::{kernels_own, own_error};
use crate::replay::{CANNOT_TELL, Prediction, ProbeReplay, Quantiles};

/// One recording.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) recording: String,
    /// What the kernel took, ns.
    pub(crate) observed: Quantiles,
    /// What each engine would have taken, by the slope.
    pub(crate) engines: Vec<(String, Prediction)>,
    /// The same by engines timed by the recording's clock, as far as they were.
    pub(crate) same_clock: Vec<(String, Prediction)>,
    /// Why there is no prediction, or what is to be known of it.
    pub(crate) note: Option<String>,
}

impl Part {
    /// An engine's predictions, each with its name: `linear, by slope`.
    pub(crate) fn of_engine(&self, name: &str) -> Vec<(String, &Prediction)> {
        let find = |all: &'_ [(String, Prediction)]| all.iter().position(|(engine, _)| engine == name);
        let slope = find(&self.engines).map(|place| &self.engines[place].1);
        match (slope, find(&self.same_clock).map(|place| &self.same_clock[place].1)) {
            (slope, None) => slope.into_iter().map(|slope| (name.to_owned(), slope)).collect(),
            (slope, Some(same)) => slope
                .into_iter()
                .map(|slope| (format!("{name}, by slope"), slope))
                .chain([(format!("{name}, same clock"), same)])
                .collect(),
        }
    }
}

/// The predictions of one probe, a part for each recording with events.
pub(crate) fn series(digests: &[&Digest], probe: Probe) -> Vec<Part> {
    digests.iter().filter_map(|digest| part(digest, probe)).collect()
}

fn part(digest: &Digest, probe: Probe) -> Option<Part> {
    let recording = digest.title(probe);
    let Some(replay) = digest.replay(probe) else {
        let [p50, p90, p99] = digest.probe(probe).latency.quantiles([500, 900, 990])?;
        return Some(Part {
            recording,
            observed: Quantiles { p50, p90, p99 },
            engines: Vec::new(),
            same_clock: Vec::new(),
            note: Some("No prediction: the recording was not replayed.".into()),
        });
    };
    if replay.lookups == 0 {
        return None;
    }
    let engines: Vec<(String, Prediction)> = replay
        .engines
        .iter()
        .filter_map(|engine| Some((engine.engine.clone(), engine.predicted.filter(finite)?)))
        .collect();
    let same_clock: Vec<(String, Prediction)> = replay
        .check
        .same_clock
        .iter()
        .flat_map(|same| &same.engines)
        .filter_map(|engine| Some((engine.engine.clone(), engine.predicted.filter(finite)?)))
        .collect();
    let note = note(replay, engines.is_empty());
    Some(Part { recording, observed: replay.latency_ns, engines, same_clock, note })
}

fn note(replay: &ProbeReplay, is_empty: bool) -> Option<String> {
    if is_empty {
        let reason = replay.no_fit.as_deref().unwrap_or("the latencies tell no cost of a step");
        return Some(format!("No prediction: {reason}"));
    }
    let mut notes = Vec::new();
    if replay.fit.is_some_and(|fit| !fit.tells()) {
        notes.push(format!("{CANNOT_TELL}."));
    }
    if let Some(error) = own_error(replay).filter(|error| error.is_finite()) {
        notes.push(format!(
            "By the same clock the kernel's own structure, {}, comes out {} from what was observed: so far off is the \
             method; compare the others with it.",
            kernels_own(replay.probe),
            text::signed_time(error)
        ));
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

fn finite(prediction: &Prediction) -> bool {
    let Prediction { latency_ns, median_ns, .. } = prediction;
    [latency_ns.p50, latency_ns.p90, median_ns.low, median_ns.high].into_iter().all(f64::is_finite)
}

/// Least and largest time of all parts, ns.
pub(crate) fn range(parts: &[Part]) -> (f64, f64) {
    parts
        .iter()
        .flat_map(|part| {
            let predicted = part.engines.iter().chain(&part.same_clock).flat_map(|(_, prediction)| {
                let Prediction { latency_ns, median_ns, .. } = prediction;
                [latency_ns.p50, latency_ns.p90, median_ns.low, median_ns.high]
            });
            [part.observed.p50, part.observed.p90].into_iter().chain(predicted)
        })
        .filter(|value| value.is_finite())
        .fold((f64::MAX, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::fixture;
    use crate::replay::clock::{SameClock, SameClockEngine};
    use crate::replay::{Fit, Interval};

    #[test]
    fn no_fit_gives_the_reason_instead_of_data() {
        let mut digest = fixture::replayed("a", &[(1, 1)], &[("linear", &[(2, 1)])]);
        digest.replays[0].no_fit = Some("all searches have the same length".into());
        let parts = series(&[&digest], Probe::PageFault);
        assert!(parts[0].engines.is_empty());
        assert_eq!(parts[0].note.as_deref(), Some("No prediction: all searches have the same length"));
    }

    #[test]
    fn predictions_stand_beside_what_was_observed() {
        let mut digest = fixture::replayed("a", &[(1, 1)], &[("linear", &[(2, 1)]), ("wbtree", &[(1, 1)])]);
        let prediction = Prediction {
            latency_ns: Quantiles { p50: 900.0, p90: 1200.0, p99: 2000.0 },
            median_ns: Interval { value: 900.0, low: 880.0, high: 930.0 },
            extrapolates: true,
        };
        digest.replays[0].engines[0].predicted = Some(prediction);
        // A figure that is no number is not drawn.
        digest.replays[0].engines[1].predicted = Some(Prediction {
            latency_ns: Quantiles { p50: f64::NAN, ..prediction.latency_ns },
            ..prediction
        });
        digest.replays[0].latency_ns = Quantiles { p50: 800.0, p90: 1000.0, p99: 1500.0 };
        let parts = series(&[&digest], Probe::PageFault);
        assert_eq!(parts[0].engines, [("linear".to_owned(), prediction)]);
        assert_eq!(parts[0].note, None);
        assert_eq!(range(&parts), (800.0, 1200.0));
    }

    #[test]
    fn both_predictions_stand_under_an_engines_name() {
        let mut digest = fixture::replayed("a", &[(1, 1)], &[("linear", &[(2, 1)]), ("rbtree", &[(1, 1)])]);
        let at = |p50: f64| Prediction {
            latency_ns: Quantiles { p50, p90: p50, p99: p50 },
            median_ns: Interval { value: p50, low: p50, high: p50 },
            extrapolates: false,
        };
        let timed = |name: &str, p50| SameClockEngine {
            engine: name.into(),
            ns_per_lookup: Interval::default(),
            predicted: Some(at(p50)),
        };
        let replay = &mut digest.replays[0];
        for engine in &mut replay.engines {
            engine.predicted = Some(at(100.0));
        }
        let engines = vec![timed("linear", 70.0), timed("rbtree", 105.0)];
        replay.check.same_clock = Some(SameClock { engines, ..SameClock::default() });
        let interval = |value, low, high| Interval { value, low, high };
        replay.fit = Some(Fit {
            intercept: interval(90.0, 80.0, 99.0),
            slope: interval(1.0, -1.0, 3.0),
            r_squared: 0.1,
            events: 100,
            range: (1, 5),
        });
        let parts = series(&[&digest], Probe::PageFault);
        let names: Vec<_> =
            parts[0].of_engine("linear").into_iter().map(|(name, at)| (name, at.latency_ns.p50)).collect();
        assert_eq!(names, [("linear, by slope".to_owned(), 100.0), ("linear, same clock".to_owned(), 70.0)]);
        let expected = format!(
            "{CANNOT_TELL}. By the same clock the kernel's own structure, rbtree, comes out +5 ns from what was observed: \
             so far off is the method; compare the others with it."
        );
        assert_eq!(parts[0].note, Some(expected));
        assert_eq!(range(&parts), (70.0, 200.0));
    }

    #[test]
    fn a_recording_without_events_has_no_part() {
        assert!(series(&[&Digest::default()], Probe::PageFault).is_empty());
    }
}
