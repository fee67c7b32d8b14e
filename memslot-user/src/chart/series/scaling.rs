//! How search length, look-up time and latency grow from one recording to the next.

use super::search_length::searched;
use crate::digest::Digest;
use crate::model::Probe;
use crate::replay::{Interval, Lengths, ProbeReplay};

/// Figures of one engine (or of the kernel) by recording: place, figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line<T> {
    /// The engine's name; `None` is the kernel.
    pub(crate) engine: Option<String>,
    pub(crate) points: Vec<(f64, T)>,
}

/// The places of the recordings on the shared axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Places {
    /// Numbers of slots or regions, all different.
    Sizes(Vec<u64>),
    /// Names, in even places.
    Names(Vec<String>),
}

/// A chart's numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) places: Places,
    /// Mean number of nodes visited.
    pub(crate) visited: Vec<Line<f64>>,
    /// Time of one look-up on the replaying machine, ns.
    pub(crate) lookup: Vec<Line<Interval>>,
    /// Median, 90th and 99th percentile of the observed latency of the calls that searched, ns.
    pub(crate) latency: [Vec<(f64, f64)>; 3],
}

/// The comparison of several recordings of one probe; `None` of fewer than two with searches.
pub(crate) fn series(digests: &[&Digest], probe: Probe) -> Option<Series> {
    let digests: Vec<&&Digest> =
        digests.iter().filter(|digest| digest.probe(probe).visited.total() > 0).collect();
    if digests.len() < 2 {
        return None;
    }
    let places = places(&digests, probe);
    let at: Vec<f64> = match &places {
        #[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
        Places::Sizes(sizes) => sizes.iter().map(|size| *size as f64).collect(),
        Places::Names(names) => (0_u32..).zip(names).map(|(place, _)| f64::from(place)).collect(),
    };

    let mut visited = vec![Line { engine: None, points: Vec::new() }];
    let mut lookup: Vec<Line<Interval>> = Vec::new();
    let mut latency: [Vec<(f64, f64)>; 3] = Default::default();
    for (digest, place) in digests.iter().zip(at) {
        let figures = digest.probe(probe);
        let replay = digest.replay(probe);
        let (observed, _) = searched(digest, probe);
        if let Some(line) = visited.first_mut().filter(|_| observed.total() > 0) {
            line.points.push((place, mean(&observed, replay)));
        }
        for engine in replay.map(|replay| replay.engines.as_slice()).unwrap_or_default() {
            push(&mut visited, &engine.engine, place, engine.visited_mean);
            if engine.ns_per_lookup.value.is_finite() && engine.ns_per_lookup.value > 0.0 {
                push(&mut lookup, &engine.engine, place, engine.ns_per_lookup);
            }
        }
        let mut searches = crate::stats::Sample::default();
        // Those that the last-used slot answered made no search.
        let least = u32::from(probe == Probe::PageFault);
        figures.by_length.range(least..).for_each(|(_, sample)| searches.merge(sample));
        if let Some(quantiles) = searches.quantiles([500, 900, 990]) {
            for (line, value) in latency.iter_mut().zip(quantiles) {
                line.push((place, value));
            }
        }
    }
    Some(Series { places, visited, lookup, latency })
}

/// Mean length of a look-up. The kernel's lengths are sums over the searches of a call, of which a
/// translation may make several.
fn mean(observed: &Lengths, replay: Option<&ProbeReplay>) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
    let searches = match replay {
        Some(replay) if replay.probe == Probe::Translate && replay.lookups > 0 => {
            observed.total() as f64 / replay.lookups as f64
        }
        _ => 1.0,
    };
    observed.mean() * searches
}

fn places(digests: &[&&Digest], probe: Probe) -> Places {
    let sizes: Option<Vec<u64>> = digests.iter().map(|digest| digest.size(probe)).collect();
    // The caller has sorted them by size, if it could.
    if let Some(sizes) = sizes.filter(|sizes| sizes.is_sorted_by(|a, b| a < b)) {
        return Places::Sizes(sizes);
    }
    Places::Names(digests.iter().map(|digest| digest.title(probe)).collect())
}

fn push<T>(lines: &mut Vec<Line<T>>, engine: &str, place: f64, figure: T) {
    match lines.iter_mut().find(|line| line.engine.as_deref() == Some(engine)) {
        Some(line) => line.points.push((place, figure)),
        None => lines.push(Line { engine: Some(engine.to_owned()), points: vec![(place, figure)] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::fixture;

    fn sized(label: &str, slots: Option<u64>, visited: u32) -> Digest {
        let mut digest = fixture::replayed(label, &[(visited, 2)], &[("linear", &[(visited * 10, 2)])]);
        digest.slots = slots;
        digest.faults.visited.add(visited);
        digest.faults.by_length.entry(visited).or_default().add(u64::from(visited) * 100);
        digest
    }

    #[test]
    fn recordings_of_growing_size_stand_on_a_scale_of_size() {
        let (a, b) = (sized("a", Some(3), 1), sized("b", Some(53), 4));
        let series = series(&[&a, &b], Probe::PageFault).unwrap();
        assert_eq!(series.places, Places::Sizes(vec![3, 53]));
        assert_eq!(series.visited[0].points, [(3.0, 1.0), (53.0, 4.0)]);
        assert_eq!(series.visited[1].engine.as_deref(), Some("linear"));
        assert_eq!(series.visited[1].points, [(3.0, 10.0), (53.0, 40.0)]);
        assert_eq!(series.latency[0], [(3.0, 100.0), (53.0, 400.0)]);
    }

    #[test]
    fn several_searches_of_a_call_are_told_apart() {
        let mut digest = fixture::replayed("a", &[(6, 10)], &[]);
        assert_eq!(mean(&digest.replays[0].observed, digest.replays.first()), 6.0);
        digest.replays[0].probe = Probe::Translate;
        digest.replays[0].lookups = 20;
        assert_eq!(mean(&digest.replays[0].observed, digest.replays.first()), 3.0);
        assert_eq!(mean(&digest.replays[0].observed, None), 6.0);
    }

    #[test]
    fn others_stand_side_by_side() {
        let (a, b) = (sized("before", Some(53), 1), sized("after", Some(53), 4));
        let both = series(&[&a, &b], Probe::PageFault).unwrap();
        assert_eq!(both.places, Places::Names(vec!["before (53 slots)".into(), "after (53 slots)".into()]));
        assert_eq!(both.visited[0].points, [(0.0, 1.0), (1.0, 4.0)]);
        assert_eq!(series(&[&a], Probe::PageFault), None);
        assert_eq!(series(&[&a, &Digest::default()], Probe::PageFault), None);
    }
}
