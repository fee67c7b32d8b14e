//! Reads and replays the recordings of a command line; for `chart` and `summary`.

use anyhow::{Context, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use memslot::digest::Digest;
use memslot::ple::{self, window::Parameters};
use memslot::recording::{Meta, Recording};
use memslot::replay::clock;
use memslot::replay::{self, Options, ProbeReplay, Progress};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which recordings, and whether to replay them.
#[derive(Debug, clap::Args)]
pub(crate) struct Source {
    /// The recordings' directories; several are compared
    #[arg(required = true, value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// Leave out what takes a replay: the engines, their cost and the predictions
    #[arg(long)]
    no_replay: bool,
    /// Rounds of timing the engines; more give narrower intervals
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
}

impl Source {
    /// The directories that were named.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.recordings
    }

    /// Digests of the recordings, in their order.
    pub(crate) fn load(&self) -> anyhow::Result<Vec<Digest>> {
        let bar = bar();
        let mut digests = Vec::with_capacity(self.recordings.len());
        for dir in &self.recordings {
            digests.push(self.load_one(dir, &bar)?);
        }
        bar.finish_and_clear();
        distinguish(&mut digests, &self.recordings);
        by_number(&mut digests);
        Ok(digests)
    }

    /// The recordings themselves, with their labels.
    pub(crate) fn open(&self) -> anyhow::Result<Vec<(String, Recording)>> {
        let open = |dir: &PathBuf| {
            let recording = Recording::open(dir)?;
            let label = recording.meta().label.clone().unwrap_or_else(|| name(dir));
            Ok((label, recording))
        };
        self.recordings.iter().map(open).collect()
    }

    fn load_one(&self, dir: &Path, bar: &ProgressBar) -> anyhow::Result<Digest> {
        let recording = Recording::open(dir)?;
        let label = recording.meta().label.clone().unwrap_or_else(|| name(dir));
        bar.set_message(format!("reading {label}"));
        let mut digest = Digest::read(&recording, label.clone(), &|rows| bar.set_position(rows))
            .with_context(|| format!("cannot read {}", dir.display()))?;
        if !self.no_replay {
            let options = Options { rounds: self.rounds, ..Options::default() };
            let report = |progress: Progress| {
                bar.set_message(format!("{label}: {}", progress.stage));
                bar.set_position(progress.done);
            };
            digest.replays = replay::run(&recording, &options, &report)
                .with_context(|| format!("cannot replay {}; --no-replay leaves that out", dir.display()))?;
            clock::predict_by_own(&recording, &options, &mut digest.replays, &report)?;
            if digest.ple.latency.count() > 0 && Parameters::of_recording(&digest.meta).is_some() {
                bar.set_message(format!("{label}: PLE policies"));
                digest.ple_analysis = Some(ple::analyse(&recording, &[], None)?);
                digest.ple_simulated = ple::simulate_for(&digest.meta).map_err(|error| anyhow!(error))?;
            }
        }
        Ok(digest)
    }
}

/// The directory's own name.
fn name(dir: &Path) -> String {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    whole.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Gives recordings of the same label their directories' names, else numbers, so that every row of a
/// chart can be told from the others.
fn distinguish(digests: &mut [Digest], dirs: &[PathBuf]) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for digest in digests.iter() {
        *seen.entry(digest.label.clone()).or_default() += 1;
    }
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for (digest, dir) in digests.iter_mut().zip(dirs) {
        if seen.get(&digest.label).is_some_and(|times| *times > 1) && name(dir) != digest.label {
            digest.label = format!("{}, {}", digest.label, name(dir));
        }
        let times = used.entry(digest.label.clone()).or_default();
        *times += 1;
        if *times > 1 {
            digest.label = format!("{} ({times})", digest.label);
        }
    }
}

/// Puts recordings whose labels differ in their numbers alone in the order of these, which is not
/// that in which a shell lists them (3, 509, 53). Such families keep the order in which they were named.
fn by_number(digests: &mut [Digest]) {
    let words = |label: &str| -> String { label.chars().filter(|c| !c.is_ascii_digit()).collect() };
    let numbers = |label: &str| -> Vec<u64> {
        label.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
    };
    let mut families: Vec<String> = Vec::new();
    for digest in digests.iter() {
        let family = words(&digest.label);
        if !families.contains(&family) {
            families.push(family);
        }
    }
    digests.sort_by_cached_key(|digest| {
        (families.iter().position(|family| *family == words(&digest.label)), numbers(&digest.label))
    });
}

/// Nothing was lost, cut off or answered wrongly.
pub(crate) fn sound(digests: &[Digest]) -> bool {
    digests.iter().all(|digest| is_whole(&digest.meta) && digest.replays.iter().all(ProbeReplay::sound))
}

/// The recording ended in order, and its figures rest on every call.
pub(crate) fn is_whole(meta: &Meta) -> bool {
    meta.complete && meta.probes.values().all(|probe| probe.is_whole(meta.max_lost))
}

/// A bar on standard error, if that is a terminal.
pub(crate) fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {human_pos}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Writes a file so that a reader sees the old one or the whole new one.
pub(crate) fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    let beside = PathBuf::from(beside);
    std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path)).map_err(|error| {
        // What is half written helps nobody; that it may be gone already is no second failure.
        let _ = std::fs::remove_file(&beside);
        anyhow::anyhow!(
            "cannot write {}: {}; choose another place or make room",
            path.display(),
            error.kind()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(labels: &[&str]) -> Vec<Digest> {
        labels.iter().map(|label| Digest::new((*label).into(), Meta::default())).collect()
    }

    fn labels(digests: &[Digest]) -> Vec<&str> {
        digests.iter().map(|digest| digest.label.as_str()).collect()
    }

    #[test]
    fn numbers_are_put_in_order_and_words_are_not() {
        let mut digests = labelled(&["slots-3", "before", "slots-509", "after", "slots-53"]);
        by_number(&mut digests);
        assert_eq!(labels(&digests), ["slots-3", "slots-53", "slots-509", "before", "after"]);
    }

    #[test]
    fn no_two_recordings_have_one_name() {
        let mut digests = labelled(&["a", "a", "a", "b"]);
        let dirs = ["/x/one", "/x/two", "/x/two", "/x/b"].map(PathBuf::from);
        distinguish(&mut digests, &dirs);
        assert_eq!(labels(&digests), ["a, one", "a, two", "a, two (2)", "b"]);
    }
}
