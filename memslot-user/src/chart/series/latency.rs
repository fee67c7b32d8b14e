//! Latency distributions by kind of call and recording.

use super::bins::{self, Bin};
use crate::digest::{Digest, Group};
use crate::model::Probe;
use crate::stats::Sample;

/// The distribution of one kind of call in one recording.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) recording: String,
    pub(crate) count: u64,
    /// Median, 90th and 99th percentile, ns.
    pub(crate) quantiles: [f64; 3],
    pub(crate) max: u64,
    pub(crate) bins: Vec<Bin>,
    /// Values outside the chart's range.
    pub(crate) beyond: u64,
}

/// A chart's numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// By kind of call: its rows, in the order of the recordings.
    pub(crate) groups: Vec<(Group, Vec<Row>)>,
    /// Least and largest value shown, ns.
    pub(crate) range: (u64, u64),
}

/// How far an extreme may lie from the body (the middle 99.8 %) before it is left out of the range.
const FAR: u64 = 100;

/// The latencies of one probe; `None` where no recording holds an event.
pub(crate) fn series(digests: &[&Digest], probe: Probe) -> Option<Series> {
    let all: Vec<_> = digests.iter().map(|digest| &digest.probe(probe).by_group).collect();
    let range = range(all.iter().flat_map(|groups| groups.values()))?;
    let per_decade = bins::per_decade(range.0, range.1);
    let mut kinds: Vec<Group> = all.iter().flat_map(|groups| groups.keys().copied()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let groups = kinds
        .into_iter()
        .map(|group| {
            let rows = digests.iter().zip(&all).filter_map(|(digest, groups)| {
                row(digest.title(probe), groups.get(&group)?, range, per_decade)
            });
            (group, rows.collect())
        })
        .collect();
    Some(Series { groups, range })
}

fn row(recording: String, sample: &Sample, range: (u64, u64), per_decade: u32) -> Option<Row> {
    let quantiles = sample.quantiles([500, 900, 990])?;
    let (inside, outside): (Vec<Bin>, Vec<Bin>) = bins::of_times(sample, per_decade)
        .into_iter()
        .partition(|bin| bin.to > range.0 && bin.from <= range.1);
    Some(Row {
        recording,
        count: sample.count(),
        quantiles,
        max: sample.max()?,
        bins: inside,
        beyond: outside.iter().map(|bin| bin.count).sum(),
    })
}

/// The range that holds every sample, but for extremes so far off that they would squash the rest.
fn range<'a>(samples: impl Iterator<Item = &'a Sample>) -> Option<(u64, u64)> {
    let mut found: Option<[u64; 4]> = None;
    for sample in samples {
        let (Some(body), Some(min), Some(max)) = (sample.quantiles([1, 999]), sample.min(), sample.max())
        else {
            continue;
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast")]
        let [low, high] = body.map(|ns| ns as u64);
        // Of fewer than a thousand values each is more than the thousandth at either end.
        let (low, high) = if sample.count() < 1000 { (min, max) } else { (low, high) };
        found =
            Some(found.map_or([min, low, high, max], |[a, b, c, d]| {
                [a.min(min), b.min(low), c.max(high), d.max(max)]
            }));
    }
    let [min, low, high, max] = found?;
    let least = if min < low / FAR { low / 10 } else { min };
    let most = if max / FAR > high { high.saturating_mul(10) } else { max };
    Some((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::fixture;

    #[test]
    fn rows_are_ordered_by_kind_then_recording() {
        let (a, b) = (
            fixture::faults("a", &[(Group::Searched, &[10, 20, 30])]),
            fixture::faults("b", &[(Group::Searched, &[5]), (Group::LastUsed, &[7])]),
        );
        let series = series(&[&a, &b], Probe::PageFault).unwrap();
        assert_eq!(series.range, (5, 30));
        let shape: Vec<_> = series
            .groups
            .iter()
            .map(|(group, rows)| (*group, rows.iter().map(|row| row.recording.as_str()).collect::<Vec<_>>()))
            .collect();
        assert_eq!(shape, [(Group::LastUsed, vec!["b"]), (Group::Searched, vec!["a", "b"])]);
        let row = &series.groups[1].1[0];
        assert_eq!((row.count, row.quantiles, row.max, row.beyond), (3, [20.0, 28.0, 29.8], 30, 0));
        assert_eq!(row.bins.iter().map(|bin| bin.count).sum::<u64>(), 3);
    }

    #[test]
    fn an_enormous_outlier_is_counted_not_drawn() {
        let mut values = vec![1000; 5000];
        values.push(u64::MAX);
        let digest = fixture::faults("a", &[(Group::Searched, &values)]);
        let series = series(&[&digest], Probe::PageFault).unwrap();
        assert_eq!(series.range, (1000, 10_000));
        let row = &series.groups[0].1[0];
        assert_eq!((row.beyond, row.max), (1, u64::MAX));
        assert_eq!(row.bins.iter().map(|bin| bin.count).sum::<u64>(), 5000);
    }

    #[test]
    fn a_few_values_are_all_body() {
        let digest = fixture::faults("a", &[(Group::Searched, &[1, 1_000_000_000])]);
        assert_eq!(series(&[&digest], Probe::PageFault).unwrap().range, (1, 1_000_000_000));
        assert_eq!(series(&[], Probe::PageFault), None);
        assert_eq!(series(&[&Digest::default()], Probe::Ple), None);
    }
}
