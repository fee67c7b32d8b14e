//! What a step of the kernel's search costs, and what the calls would have taken with other engines.
//!
//! Latency is taken as a straight line of the nodes visited. The line is Theil and Sen's through the
//! medians by length, weighted by their events, of events that are alike but for the search; its
//! intervals come from a bootstrap over blocks of consecutive events. A prediction exchanges the search: it takes off the
//! kernel's nodes and puts on the engine's, each at the cost of one of the kernel's. So a structure
//! whose nodes are cheaper than a tree's, such as an array, is predicted too slow, never too fast.

use super::event::{Basis, Kept};
use super::outcome::{ClassFit, Fit, Interval, LengthResiduals, Lengths, Prediction, Quantiles, Residuals};
use crate::stats::{
    BlockBootstrap, Line, median, percentile_interval, quantile_unsorted, r_squared, theil_sen_weighted,
};
use std::collections::BTreeMap;

/// Events that a length needs, for its median to count.
const FEWEST_EVENTS: usize = 20;
/// Lengths that a line needs.
const FEWEST_LENGTHS: usize = 3;
/// Events that a bootstrap resamples; of more, every n-th is taken, which widens the interval.
const MOST_RESAMPLED: usize = 100_000;
const BLOCKS: usize = 40;
const RESAMPLES: usize = 200;
const SEED: u64 = 0x6d65_6d73_6c6f_7431;

/// A fit and the kind of events that it rests on, or why there is none.
pub(super) struct Fitted {
    pub(super) fit: Option<Fit>,
    pub(super) basis: Option<Basis>,
    pub(super) reason: Option<String>,
    /// The lines of all kinds.
    pub(super) classes: Vec<ClassFit>,
}

/// Fits the cost of a step to a sample of the events. `range`: smallest and largest search length among
/// all of them, sampled or not; where the kernel itself went, no prediction extrapolates.
pub(super) fn fit(events: &[Kept], range: (u32, u32)) -> Fitted {
    let mut by_basis: BTreeMap<Basis, Vec<(u32, f64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.basis != Basis::Other && event.visited > 0) {
        by_basis.entry(event.basis).or_default().push((event.visited, nanoseconds(event)));
    }
    let largest = by_basis.iter().max_by_key(|(_, points)| points.len()).map(|(basis, _)| *basis);
    let (mut chosen, mut reason, mut classes) = (None, Some("no event searched".to_owned()), Vec::new());
    for (basis, points) in &by_basis {
        let fitted = fit_class(*basis, points);
        if Some(*basis) == largest {
            chosen = fitted.fit.map(|fit| Fit { range, ..fit });
            reason.clone_from(&fitted.reason);
        }
        classes.push(fitted);
    }
    Fitted { fit: chosen, basis: largest, reason, classes }
}

/// The line of one class of events.
fn fit_class(basis: Basis, points: &[(u32, f64)]) -> ClassFit {
    let none = |reason: String| ClassFit {
        class: basis.text().to_owned(),
        fit: None,
        reason: Some(reason),
        residuals: None,
    };
    let medians = medians(points.iter().copied());
    let Some(line) = line(&medians) else {
        return none(format!(
            "a line needs {FEWEST_LENGTHS} search lengths with {FEWEST_EVENTS} events each, and the {} have {}",
            basis.text(),
            medians.len()
        ));
    };
    let Some((intercept, slope)) = intervals(points, line) else {
        return none(format!("the {} are too few to resample", basis.text()));
    };
    let points_of_medians: Vec<(f64, f64)> =
        medians.iter().map(|middle| (f64::from(middle.length), middle.median)).collect();
    let lengths = || points.iter().map(|(length, _)| *length);
    let fit = Fit {
        intercept,
        slope,
        r_squared: r_squared(&points_of_medians, line),
        events: points.len() as u64,
        range: (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0)),
    };
    ClassFit { class: basis.text().to_owned(), fit: Some(fit), reason: None, residuals: residuals(points) }
}

/// Fits four fifths of the events, and sees how the last fifth lies about the line. Whole blocks are
/// held out, as neighbours are alike.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn residuals(points: &[(u32, f64)]) -> Option<Residuals> {
    let block = points.len().div_ceil(BLOCKS).max(1);
    let part = |held_out: bool| {
        points
            .chunks(block)
            .enumerate()
            .filter(move |(number, _)| (number % 5 == 4) == held_out)
            .flat_map(|(_, block)| block.iter().copied())
    };
    let line = line(&medians(part(false)))?;
    let about = |held_out| {
        part(held_out)
            .map(|(length, latency)| (length, latency - line.intercept - line.slope * f64::from(length)))
    };
    let mut fitted: Vec<f64> = about(false).map(|(_, residual)| residual).collect();
    let (low, high) = (quantile_unsorted(&mut fitted, 0.025)?, quantile_unsorted(&mut fitted, 0.975)?);
    let coverage = |held: &[f64]| {
        held.iter().filter(|residual| (low..=high).contains(*residual)).count() as f64 / held.len() as f64
    };
    let mut by_length: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    about(true).for_each(|(length, residual)| by_length.entry(length).or_default().push(residual));
    let mut held: Vec<f64> = by_length.values().flatten().copied().collect();
    let of_length = |(length, mut held): (u32, Vec<f64>)| {
        let mut at = |p| quantile_unsorted(&mut held, p).unwrap_or(0.0);
        let quantiles = [0.025, 0.25, 0.5, 0.75, 0.975].map(&mut at);
        LengthResiduals { length, held_out: held.len() as u64, quantiles, coverage: coverage(&held) }
    };
    Some(Residuals {
        held_out: held.len() as u64,
        low: quantile_unsorted(&mut held, 0.025)?,
        median: quantile_unsorted(&mut held, 0.5)?,
        high: quantile_unsorted(&mut held, 0.975)?,
        coverage: coverage(&held),
        interval: (low, high),
        by_length: by_length.into_iter().map(of_length).collect(),
    })
}

/// The quantiles of the latencies as they were.
pub(super) fn latency(events: &[Kept]) -> Quantiles {
    quantiles(&mut events.iter().map(nanoseconds).collect::<Vec<_>>())
}

/// The latencies with another engine: the one of that place, whose look-ups had these lengths.
pub(super) fn predict(events: &[Kept], engine: usize, lengths: &Lengths, fit: &Fit) -> Prediction {
    let mut exchanged = Vec::with_capacity(events.len());
    let mut at = |slope: f64| {
        exchanged.clear();
        exchanged.extend(events.iter().map(|event| {
            let more = f64::from(event.by_engine[engine]) - f64::from(event.visited);
            (nanoseconds(event) + slope * more).max(0.0)
        }));
        quantiles(&mut exchanged)
    };
    let latency_ns = at(fit.slope.value);
    let (one, other) = (at(fit.slope.low).p50, at(fit.slope.high).p50);
    let value = latency_ns.p50;
    let (low, high) = (value.min(one).min(other), value.max(one).max(other));
    // A search that ends before its first node, in an interval tree, is no length of the line.
    let outside = |length: &u32| *length > 0 && (*length < fit.range.0 || *length > fit.range.1);
    let extrapolates = lengths.0.keys().any(outside);
    Prediction { latency_ns, median_ns: Interval { value, low, high }, extrapolates }
}

#[expect(clippy::cast_precision_loss, reason = "latencies far below 2^53 ns, which are 104 days")]
fn nanoseconds(event: &Kept) -> f64 {
    event.latency as f64
}

fn quantiles(values: &mut [f64]) -> Quantiles {
    let mut at = |p| quantile_unsorted(values, p).unwrap_or(0.0);
    Quantiles { p50: at(0.5), p90: at(0.9), p99: at(0.99) }
}

/// The events of one search length.
struct Middle {
    length: u32,
    median: f64,
    events: usize,
}

/// The median by length, of lengths with enough events.
fn medians(points: impl Iterator<Item = (u32, f64)>) -> Vec<Middle> {
    let mut by_length: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    points.for_each(|(length, latency)| by_length.entry(length).or_default().push(latency));
    by_length
        .into_iter()
        .filter(|(_, latencies)| latencies.len() >= FEWEST_EVENTS)
        .filter_map(|(length, mut latencies)| {
            Some(Middle { length, median: median(&mut latencies)?, events: latencies.len() })
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn line(medians: &[Middle]) -> Option<Line> {
    if medians.len() < FEWEST_LENGTHS {
        return None;
    }
    let points: Vec<(f64, f64, f64)> = medians
        .iter()
        .map(|middle| (f64::from(middle.length), middle.median, middle.events as f64))
        .collect();
    theil_sen_weighted(&points)
}

/// Intercept and slope with their intervals.
fn intervals(points: &[(u32, f64)], line_of_all: Line) -> Option<(Interval, Interval)> {
    let step = points.len().div_ceil(MOST_RESAMPLED);
    let points: Vec<(u32, f64)> = points.iter().step_by(step).copied().collect();
    let mut bootstrap = BlockBootstrap::new(points.len(), BLOCKS, SEED);
    let (mut intercepts, mut slopes) = (Vec::new(), Vec::new());
    for _ in 0..RESAMPLES {
        let drawn = bootstrap.draw().flat_map(|block| points[block].iter().copied());
        // A resample can lack a length; one that lacks too many tells nothing.
        if let Some(line) = line(&medians(drawn)) {
            intercepts.push(line.intercept);
            slopes.push(line.slope);
        }
    }
    let around = |value: f64, resampled: &mut [f64]| {
        let (low, high) = percentile_interval(resampled)?;
        Some(Interval { value, low: low.min(value), high: high.max(value) })
    };
    Some((around(line_of_all.intercept, &mut intercepts)?, around(line_of_all.slope, &mut slopes)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineId;

    fn event(visited: u32, latency: u64) -> Kept {
        // The first engine visits 11 nodes each time, the second those that the kernel does.
        let mut by_engine = [0; EngineId::ALL.len()];
        by_engine[..2].copy_from_slice(&[11, visited]);
        Kept { latency, visited, basis: Basis::Ram, by_engine }
    }

    fn fit(events: &[Kept]) -> Fitted {
        super::fit(events, (1, 7))
    }

    /// 2000 ns and 30 a node, with noise that is long on one side.
    fn events() -> Vec<Kept> {
        let noise = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57;
        (0..6000_u64)
            .map(|at| {
                let visited = 1 + u32::try_from(at % 7).unwrap();
                let spike = if at % 100 == 0 { 50_000 } else { 0 };
                event(visited, 2000 + 30 * u64::from(visited) + noise(at) + spike)
            })
            .collect()
    }

    #[test]
    fn hits_and_misses_have_lines_of_their_own() {
        let mut events = events();
        for (number, event) in events.iter_mut().enumerate() {
            if number % 3 == 0 {
                (event.basis, event.latency) = (Basis::NoSlot, event.latency + 5000);
            }
        }
        let classes = fit(&events).classes;
        assert_eq!(classes.len(), 2);
        let intercept = |class: usize| classes[class].fit.unwrap().intercept.value;
        assert!((intercept(1) - intercept(0) - 5000.0).abs() < 20.0, "{classes:?}");
    }

    /// Latencies that drift: the held-out events then lie where the line does not expect them.
    #[test]
    fn a_line_that_fits_badly_shows_in_the_coverage() {
        let mut events = events();
        for (number, event) in (0..).zip(&mut events) {
            event.latency += if (number / 150) % 5 == 4 { 3000 } else { 0 };
        }
        let residuals = fit(&events).classes.remove(0).residuals.unwrap();
        assert!(residuals.coverage < 0.5 && residuals.median > 1000.0, "{residuals:?}");
    }

    #[test]
    fn the_cost_of_a_step_is_found_and_used() {
        let events = events();
        let fitted = fit(&events).fit.unwrap();
        assert!((fitted.slope.value - 30.0).abs() < 1.5, "{fitted:?}");
        assert!(fitted.slope.low < 30.0 && 30.0 < fitted.slope.high, "{fitted:?}");
        assert!(fitted.slope.high - fitted.slope.low < 5.0, "{fitted:?}");
        // The noise is uniform below 128.
        assert!((fitted.intercept.value - 2064.0).abs() < 10.0, "{fitted:?}");
        let residuals = fit(&events).classes.remove(0).residuals.unwrap();
        assert_eq!(residuals.held_out, 1200);
        assert!((residuals.coverage - 0.95).abs() < 0.02, "{residuals:?}");
        assert!(residuals.median.abs() < 10.0 && residuals.low < -50.0 && residuals.high > 50.0);
        let lengths: Vec<u32> = residuals.by_length.iter().map(|length| length.length).collect();
        assert_eq!(lengths, [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(residuals.by_length.iter().map(|length| length.held_out).sum::<u64>(), 1200);
        for length in &residuals.by_length {
            assert!(length.quantiles.is_sorted() && (length.coverage - 0.95).abs() < 0.06, "{length:?}");
        }
        assert!(residuals.interval.0 < -50.0 && residuals.interval.1 > 50.0, "{residuals:?}");
        assert!(fitted.r_squared > 0.98 && fitted.range == (1, 7) && fitted.events == 6000);

        // Beyond what was seen.
        let lengths = |length| Lengths([(length, 6000)].into());
        let prediction = predict(&events, 0, &lengths(11), &fitted);
        assert!((prediction.median_ns.value - (2064.0 + 330.0)).abs() < 15.0, "{prediction:?}");
        assert!(prediction.median_ns.low < prediction.median_ns.value && prediction.extrapolates);
        // The same nodes as the kernel: the same latencies.
        let same = predict(&events, 1, &lengths(7), &fitted);
        assert!(same.latency_ns == latency(&events) && !same.extrapolates);
    }

    #[test]
    fn without_enough_lengths_the_reason_is_given() {
        let fitted = fit(&[]);
        assert_eq!(fitted.reason.as_deref(), Some("no event searched"));
        let two: Vec<Kept> = (0..100).map(|at| event(1 + at % 2, 100)).collect();
        let reason = fit(&two).reason.unwrap();
        assert!(reason.starts_with("a line needs 3 search lengths with 20 events each"), "{reason}");
        assert!(reason.ends_with("have 2"), "{reason}");
        // Answers of the last-used slot are no searches.
        assert!(fit(&vec![event(0, 5); 100]).fit.is_none());
    }
}
