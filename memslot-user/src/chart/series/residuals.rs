//! What the fitted lines leave unexplained of events that they were not fitted to.

use super::super::text;
use crate::digest::Digest;
use crate::model::Probe;
use crate::replay::{CANNOT_TELL, Fit, LengthResiduals, ProbeReplay, Residuals};

/// The line of one class of one recording's events.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) heading: String,
    pub(crate) lengths: Vec<LengthResiduals>,
    /// The interval that should hold 95 % of them, ns.
    pub(crate) interval: (f64, f64),
    /// Coverage, bias, and what the line cannot tell; or why there is no line.
    pub(crate) note: String,
}

/// The lines of one probe: a part for each recording and class of events.
pub(crate) fn series(digests: &[&Digest], probe: Probe) -> Vec<Part> {
    let replayed = digests.iter().filter_map(|digest| Some((digest, digest.replay(probe)?)));
    replayed.flat_map(|(digest, replay)| parts(&digest.title(probe), replay)).collect()
}

fn parts(recording: &str, replay: &ProbeReplay) -> Vec<Part> {
    let fitted = replay.check.classes.iter().filter_map(|class| {
        let (fit, residuals) = (class.fit?, class.residuals.as_ref().filter(|left| is_finite(left))?);
        let mut part = Part {
            heading: format!("{recording}: {}", class.class),
            lengths: residuals.by_length.clone(),
            interval: residuals.interval,
            note: note(&fit, residuals, replay),
        };
        if range(&part) != whole(&part.lengths, part.interval) {
            part.note += " The panel ends where a few calls would squash the others.";
        }
        Some(part)
    });
    let parts: Vec<Part> = fitted.collect();
    if !parts.is_empty() || replay.check.events == 0 {
        return parts;
    }
    let reason = replay.no_fit.as_deref().unwrap_or("the latencies tell no cost of a step");
    vec![Part {
        heading: recording.to_owned(),
        lengths: Vec::new(),
        interval: (0.0, 0.0),
        note: format!("No line: {reason}"),
    }]
}

fn is_finite(left: &Residuals) -> bool {
    let lengths = left.by_length.iter().flat_map(|length| length.quantiles);
    [left.interval.0, left.interval.1, left.coverage].into_iter().chain(lengths).all(f64::is_finite)
}

fn note(fit: &Fit, residuals: &Residuals, replay: &ProbeReplay) -> String {
    let mut note = format!(
        "Of {} calls held out {} lie in the 95 % interval, {} to {}; median {}.",
        text::count(residuals.held_out),
        // One decimal, also of what is nearly all: 95 % is what it is held against.
        format_args!("{:.1} %", 100.0 * residuals.coverage),
        text::signed_time(residuals.interval.0),
        text::signed_time(residuals.interval.1),
        text::signed_time(residuals.median)
    );
    if !fit.tells() {
        note += &format!(" {CANNOT_TELL}.");
    }
    let beyond: Vec<&str> = replay
        .engines
        .iter()
        .filter(|engine| engine.predicted.is_some_and(|predicted| predicted.extrapolates))
        .map(|engine| engine.engine.as_str())
        .collect();
    if let Some(range) = replay.fit.map(|fit| fit.range).filter(|_| !beyond.is_empty()) {
        note += &format!(
            " Extrapolated beyond {} to {} nodes, where nothing was held out: {}.",
            range.0,
            range.1,
            beyond.join(", ")
        );
    }
    note
}

/// So many times as far out as the quartiles the panels reach: a few calls that were interrupted would squash the
/// others.
const REACH: f64 = 8.0;

/// Least and largest residual that the panels show, ns; 0 is always among them.
pub(crate) fn range(part: &Part) -> (f64, f64) {
    let quartiles = part.lengths.iter().flat_map(|length| [length.quantiles[1], length.quantiles[3]]);
    let most = REACH * quartiles.map(f64::abs).fold(1.0, f64::max);
    let (low, high) = whole(&part.lengths, part.interval);
    (low.max(-most), high.min(most))
}

/// The same with nothing cut off.
fn whole(lengths: &[LengthResiduals], interval: (f64, f64)) -> (f64, f64) {
    lengths
        .iter()
        .flat_map(|length| [length.quantiles[0], length.quantiles[4]])
        .chain([interval.0, interval.1])
        .fold((0.0, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::fixture;
    use crate::replay::{ClassFit, Interval, Prediction, Quantiles};

    fn class(slope: Interval) -> ClassFit {
        let length = |length, at: f64| LengthResiduals {
            length,
            held_out: 100,
            quantiles: [at - 20.0, at - 5.0, at, at + 5.0, at + 40.0],
            coverage: 0.94,
        };
        let fit = Fit {
            intercept: Interval { value: 100.0, low: 90.0, high: 110.0 },
            slope,
            r_squared: 0.9,
            events: 1000,
            range: (1, 4),
        };
        ClassFit {
            class: "faults on no slot".into(),
            fit: Some(fit),
            reason: None,
            residuals: Some(Residuals {
                held_out: 200,
                low: -19.0,
                median: 0.4,
                high: 38.0,
                coverage: 0.941,
                interval: (-20.0, 41.0),
                by_length: vec![length(1, 0.0), length(4, 2.0)],
            }),
        }
    }

    #[test]
    fn coverage_and_what_cannot_be_told_are_said() {
        let mut digest =
            fixture::replayed("a", &[(1, 2), (4, 1)], &[("linear", &[(9, 1)]), ("wbtree", &[(2, 1)])]);
        let replay = &mut digest.replays[0];
        let clear = class(Interval { value: 5.0, low: 4.0, high: 6.0 });
        let vague = class(Interval { value: 5.0, low: -4.0, high: 6.0 });
        replay.fit = clear.fit;
        replay.engines[0].predicted = Some(Prediction {
            latency_ns: Quantiles::default(),
            median_ns: Interval::default(),
            extrapolates: true,
        });
        replay.check.events = 3;
        replay.check.classes = vec![clear, vague];
        let parts = series(&[&digest], Probe::PageFault);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0].heading, "a: faults on no slot");
        let beyond = " Extrapolated beyond 1 to 4 nodes, where nothing was held out: linear.";
        let said = "Of 200 calls held out 94.1 % lie in the 95 % interval, −20 ns to +41 ns; median +0.4 ns.";
        assert_eq!(parts[0].note, format!("{said}{beyond}"));
        assert_eq!(parts[1].note, format!("{said} {CANNOT_TELL}.{beyond}"));
        assert_eq!(range(&parts[0]), (-20.0, 42.0));
        let mut squashed = parts[0].clone();
        squashed.interval.1 = 5000.0;
        assert_eq!(range(&squashed), (-20.0, 56.0), "8 times as far as the third quartile, 7");
        assert_eq!(parts[0].lengths.iter().map(|length| length.length).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn without_a_line_the_reason_stands_there() {
        let mut digest = fixture::replayed("a", &[(1, 1)], &[("linear", &[(2, 1)])]);
        assert!(series(&[&digest], Probe::PageFault).is_empty(), "no events, no part");
        digest.replays[0].check.events = 1;
        digest.replays[0].no_fit = Some("no event searched".into());
        let parts = series(&[&digest], Probe::PageFault);
        assert_eq!((parts[0].note.as_str(), parts[0].lengths.len()), ("No line: no event searched", 0));
        assert_eq!(range(&parts[0]), (0.0, 0.0));
        // A figure that is no number is not drawn.
        let mut class = class(Interval::default());
        if let Some(residuals) = &mut class.residuals {
            residuals.by_length[0].quantiles[2] = f64::NAN;
        }
        digest.replays[0].check.classes = vec![class];
        assert_eq!(series(&[&digest], Probe::PageFault)[0].lengths.len(), 0);
        assert!(series(&[&Digest::default()], Probe::PageFault).is_empty());
    }
}
