//! Search lengths: what the kernel's own search took, and what each engine would.

use super::bins::{self, Bin};
use crate::chart::text;
use crate::digest::Digest;
use crate::model::Probe;
use crate::replay::Lengths;

/// The lengths of one engine over one recording's look-ups.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The engine's name; `None` is the kernel, as observed.
    pub(crate) engine: Option<String>,
    pub(crate) lookups: u64,
    pub(crate) mean: f64,
    /// Median and 99th percentile.
    pub(crate) quantiles: [u32; 2],
    pub(crate) max: u32,
    pub(crate) bins: Vec<Bin>,
}

/// A recording's rows: the kernel first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) recording: String,
    pub(crate) rows: Vec<Row>,
    /// Why rows are missing.
    pub(crate) note: Option<String>,
}

fn row(engine: Option<&str>, lengths: &Lengths) -> Option<Row> {
    Some(Row {
        engine: engine.map(str::to_owned),
        lookups: lengths.total(),
        mean: lengths.mean(),
        quantiles: [lengths.quantile(500)?, lengths.quantile(990)?],
        max: *lengths.0.keys().next_back()?,
        bins: bins::of_lengths(lengths),
    })
}

/// The kernel's lengths over the look-ups that the engines make too: without those that the
/// last-used slot answered, which stays in front of every engine. And how many those were.
pub(crate) fn searched(digest: &Digest, probe: Probe) -> (Lengths, u64) {
    let mut lengths =
        digest.replay(probe).map_or(&digest.probe(probe).visited, |replay| &replay.observed).clone();
    let answered = match probe {
        Probe::PageFault => lengths.0.remove(&0).unwrap_or(0),
        Probe::Ple | Probe::Translate => 0,
    };
    (lengths, answered)
}

/// The search lengths of one probe, a part for each recording that has any.
pub(crate) fn series(digests: &[&Digest], probe: Probe) -> Vec<Part> {
    digests.iter().filter_map(|digest| part(digest, probe)).collect()
}

fn part(digest: &Digest, probe: Probe) -> Option<Part> {
    let (observed, answered) = searched(digest, probe);
    let replay = digest.replay(probe);
    let engines = replay.map(|replay| replay.engines.as_slice()).unwrap_or_default();
    let engines = engines.iter().filter_map(|engine| row(Some(&engine.engine), &engine.visited));
    let rows: Vec<Row> = row(None, &observed).into_iter().chain(engines).collect();
    if rows.is_empty() && answered == 0 {
        return None;
    }
    let mut notes = Vec::new();
    if answered > 0 {
        let all = answered + observed.total();
        notes.push(format!(
            "The last-used slot answered {} of {} look-ups without a search.",
            text::count(answered),
            text::count(all)
        ));
    }
    let lookups = replay.map_or(0, |replay| replay.lookups);
    if probe == Probe::Translate && lookups > observed.total() {
        notes.push(format!(
            "The kernel's length is the sum over the searches of a call: {} calls made {} look-ups.",
            text::count(observed.total()),
            text::count(lookups)
        ));
    }
    match replay {
        None => notes.push("Not replayed: only what the kernel's own search took is known.".into()),
        Some(replay) if !replay.left_out.is_empty() => {
            let reasons =
                replay.left_out.iter().map(|(why, number)| format!("{why} {}", text::count(*number)));
            notes.push(format!("Left out of the replay: {}.", reasons.collect::<Vec<_>>().join(", ")));
        }
        Some(_) => {}
    }
    let note = (!notes.is_empty()).then(|| notes.join(" "));
    Some(Part { recording: digest.title(probe), rows, note })
}

/// The longest search of any row.
pub(crate) fn longest(parts: &[Part]) -> u32 {
    parts.iter().flat_map(|part| &part.rows).map(|row| row.max).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::fixture;

    #[test]
    fn the_kernel_comes_first_and_every_engine_follows() {
        let digest = fixture::replayed(
            "slots-3",
            &[(0, 2), (3, 2)],
            &[("linear", &[(2, 4)]), ("wbtree", &[(1, 3), (5, 1)])],
        );
        let parts = series(&[&digest], Probe::PageFault);
        assert_eq!(parts.len(), 1);
        let rows: Vec<_> = parts[0]
            .rows
            .iter()
            .map(|row| (row.engine.as_deref(), row.lookups, row.mean, row.quantiles, row.max))
            .collect();
        assert_eq!(
            rows,
            [
                (None, 2, 3.0, [3, 3], 3),
                (Some("linear"), 4, 2.0, [2, 2], 2),
                (Some("wbtree"), 4, 2.0, [1, 5], 5)
            ]
        );
        assert_eq!(
            parts[0].note.as_deref(),
            Some("The last-used slot answered 2 of 4 look-ups without a search.")
        );
        assert_eq!(longest(&parts), 5);
    }

    #[test]
    fn without_a_replay_the_kernel_stands_alone_and_the_chart_says_so() {
        let mut digest = Digest::default();
        digest.translations.visited.add(4);
        let parts = series(&[&digest], Probe::Translate);
        assert_eq!(parts[0].rows.len(), 1);
        assert!(parts[0].note.as_ref().unwrap().starts_with("Not replayed"));
        assert!(series(&[&digest], Probe::PageFault).is_empty());
    }

    #[test]
    fn calls_of_several_searches_are_told_apart_from_look_ups() {
        let mut digest = fixture::replayed("a", &[(4, 10)], &[]);
        digest.replays[0].probe = Probe::Translate;
        digest.replays[0].lookups = 12;
        assert_eq!(
            series(&[&digest], Probe::Translate)[0].note.as_deref(),
            Some("The kernel's length is the sum over the searches of a call: 10 calls made 12 look-ups.")
        );
    }

    #[test]
    fn what_the_replay_left_out_is_named() {
        let mut digest = fixture::replayed("a", &[(1, 1)], &[]);
        digest.replays[0].left_out.insert("no layout".into(), 1200);
        assert_eq!(
            series(&[&digest], Probe::PageFault)[0].note.as_deref(),
            Some("Left out of the replay: no layout 1,200.")
        );
    }
}
