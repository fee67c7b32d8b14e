//! Lines of a distribution: its shares, and its percentiles out to the last call.

use crate::digest::{Digest, Group};
use crate::model::Probe;
use crate::stats::Sample;

/// A thousandth is less than a pixel.
const PIXEL: f64 = 0.001;

/// Latency and the share of the calls that took no longer, from 0.1 to 99.9 %.
#[expect(clippy::cast_precision_loss, reason = "places on an axis")]
pub(crate) fn ecdf(sample: &Sample) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let total = sample.count() as f64;
    let (mut seen, mut drawn) = (0, -1.0);
    for (value, times) in sample.iter() {
        seen += times;
        let share = seen as f64 / total;
        if share - drawn >= PIXEL && share > PIXEL {
            points.push((value as f64, share));
            drawn = share;
        }
        if share >= 1.0 - PIXEL {
            break;
        }
    }
    points
}

/// One call in how many took longer than those before (HdrHistogram's axis, where 10 is the 90th
/// percentile) and what it took, ns; the last point is the longest call.
#[expect(clippy::cast_precision_loss, reason = "places on an axis")]
pub(crate) fn percentiles(sample: &Sample) -> Vec<(f64, f64)> {
    let Some(max) = sample.max() else { return Vec::new() };
    let total = sample.count() as f64;
    let apart = 1.0 + (total.max(2.0).ln() * PIXEL);
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut before = 0;
    for (value, times) in sample.iter() {
        let place = total / (sample.count() - before) as f64;
        before += times;
        if points.last().is_none_or(|last| place >= last.0 * apart) {
            points.push((place, value as f64));
        }
    }
    points.push((total, max as f64));
    points
}

/// The distributions of one kind of call: each recording's place and name, and what it took.
pub(crate) struct Part<'a> {
    pub(crate) group: Group,
    pub(crate) samples: Vec<(usize, &'a Sample)>,
}

/// By kind of call, the recordings' distributions.
pub(crate) fn parts<'a>(digests: &[&'a Digest], probe: Probe) -> Vec<Part<'a>> {
    let mut groups: Vec<Group> =
        digests.iter().flat_map(|digest| digest.probe(probe).by_group.keys().copied()).collect();
    groups.sort_unstable();
    groups.dedup();
    let of = |group: Group| {
        let samples = digests.iter().enumerate().filter_map(move |(place, digest)| {
            Some((place, digest.probe(probe).by_group.get(&group).filter(|sample| sample.count() > 0)?))
        });
        Part { group, samples: samples.collect() }
    };
    groups.into_iter().map(of).filter(|part| !part.samples.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Sample {
        let mut sample = Sample::default();
        values.into_iter().for_each(|value| sample.add(value));
        sample
    }

    #[test]
    fn the_line_of_a_distribution_holds_its_shares() {
        assert_eq!(ecdf(&of([10, 20, 20, 40])), [(10.0, 0.25), (20.0, 0.75), (40.0, 1.0)]);
        assert!(ecdf(&of(0..100_000)).len() <= 1000);
        assert!(ecdf(&Sample::default()).is_empty());
    }

    #[test]
    fn percentiles_reach_the_last_call() {
        // Of 1 to 1000 ns, half take more than 500, and one in a hundred more than 990.
        let points = percentiles(&of(1..=1000));
        assert_eq!(points.first(), Some(&(1.0, 1.0)));
        let median = points.iter().find(|point| point.0 >= 2.0).unwrap();
        assert!(median.0 < 2.01 && (501.0..506.0).contains(&median.1), "{median:?}");
        assert!(points.contains(&(100.0, 991.0)), "{} points", points.len());
        assert_eq!(points.last(), Some(&(1000.0, 1000.0)));
        assert_eq!(percentiles(&of([7])), [(1.0, 7.0), (1.0, 7.0)]);
        assert!(percentiles(&Sample::default()).is_empty());
        assert!(percentiles(&of(0..2_000_000)).len() < 1200);
    }
}
