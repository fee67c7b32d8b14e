//! Latency predicted for each engine beside the latency observed in the kernel.

use crate::digest::Digest;
use crate::model::Probe;
use crate::replay::{Prediction, Quantiles};

/// One recording.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) recording: String,
    /// What the kernel took, ns.
    pub(crate) observed: Quantiles,
    /// What each engine would have taken.
    pub(crate) engines: Vec<(String, Prediction)>,
    /// Why there is no prediction.
    pub(crate) reason: Option<String>,
}

/// The predictions of one probe, a part for each recording with events.
pub(crate) fn series(digests: &[&Digest], probe: Probe) -> Vec<Part> {
    digests.iter().filter_map(|digest| part(digest, probe)).collect()
}

fn part(digest: &Digest, probe: Probe) -> Option<Part> {
    let recording = digest.title(probe);
    let Some(replay) = digest.replay(probe) else {
        let [p50, p90, p99] = digest.probe(probe).latency.quantiles([500, 900, 990])?;
        let reason = Some("No prediction: the recording was not replayed.".into());
        return Some(Part { recording, observed: Quantiles { p50, p90, p99 }, engines: Vec::new(), reason });
    };
    if replay.lookups == 0 {
        return None;
    }
    let engines: Vec<(String, Prediction)> = replay
        .engines
        .iter()
        .filter_map(|engine| Some((engine.engine.clone(), engine.predicted.filter(finite)?)))
        .collect();
    let reason = engines.is_empty().then(|| {
        let reason = replay.no_fit.as_deref().unwrap_or("the latencies tell no cost of a step");
        format!("No prediction: {reason}")
    });
    Some(Part { recording, observed: replay.latency_ns, engines, reason })
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
            let predicted = part.engines.iter().flat_map(|(_, prediction)| {
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
    use crate::replay::Interval;

    #[test]
    fn no_fit_gives_the_reason_instead_of_data() {
        let mut digest = fixture::replayed("a", &[(1, 1)], &[("linear", &[(2, 1)])]);
        digest.replays[0].no_fit = Some("all searches have the same length".into());
        let parts = series(&[&digest], Probe::PageFault);
        assert!(parts[0].engines.is_empty());
        assert_eq!(parts[0].reason.as_deref(), Some("No prediction: all searches have the same length"));
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
        assert_eq!(parts[0].reason, None);
        assert_eq!(range(&parts), (800.0, 1200.0));
    }

    #[test]
    fn a_recording_without_events_has_no_part() {
        assert!(series(&[&Digest::default()], Probe::PageFault).is_empty());
    }
}
