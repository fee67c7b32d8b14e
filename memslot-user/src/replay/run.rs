//! A replay from a recording to its figures.

use super::count::Count;
use super::engines::{classes, usual};
use super::faults::faults;
use super::fold::{CHUNK, Fold};
use super::outcome::{ClassSteps, EngineOutcome, Interval, ProbeReplay, Quantiles, Steps, share};
use super::predict;
use super::timing::Timing;
use super::translations::translations;
use crate::engine::EngineId;
use crate::model::Probe;
use crate::recording::{self, Recording};
use std::collections::BTreeSet;

/// What to replay, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The probes whose events make look-ups; PLE exits make none.
    pub probes: Vec<Probe>,
    /// The engines; `None`: those that the probe's kernel has, had, or could have.
    pub engines: Option<Vec<EngineId>>,
    /// Rounds of timing; 0 leaves the times 0.
    pub rounds: u32,
    /// What stands in front of every engine.
    pub last_used: LastUsed,
    /// Rows that are read and joined at once, which bounds the memory.
    pub chunk: usize,
    /// Events that fit and predictions rest on, at most.
    pub sample: usize,
}

/// Whose last-used slot is asked before an engine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LastUsed {
    /// The vCPU's own, as recorded; vhost keeps none. Without a recording, one for each vCPU or queue
    #[default]
    On,
    /// One for each vCPU, simulated as the kernel keeps it; translations as with `on`
    Vcpu,
    /// One for each VM, simulated; translations as with `on`
    Vm,
    /// One for each vhost queue, simulated; faults as with `on`
    Queue,
    /// None: every access is a look-up ("non cached")
    Off,
}

impl LastUsed {
    /// Whose slot it is for a probe's events, in JSON.
    fn whose(self, probe: Probe) -> &'static str {
        match (self, probe) {
            (Self::Queue, Probe::Translate) => "queue",
            (_, Probe::Translate) | (Self::Off, _) => "off",
            (Self::On | Self::Queue, _) => "recorded",
            (Self::Vcpu, _) => "vcpu",
            (Self::Vm, _) => "vm",
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            probes: vec![Probe::PageFault, Probe::Translate],
            engines: None,
            rounds: 21,
            last_used: LastUsed::On,
            chunk: CHUNK,
            sample: CHUNK,
        }
    }
}

/// How far a replay has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is going on.
    pub stage: &'static str,
    /// Events, or rounds, done.
    pub done: u64,
    /// Of so many, where that is known.
    pub total: Option<u64>,
}

/// Told of the progress.
pub(super) type Report<'a> = &'a dyn Fn(Progress);

/// Why a replay is not possible.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// A probe without look-ups was named.
    #[error("{} makes no look-ups to replay; choose page_fault or translate", .0.name())]
    NoLookups(Probe),
}

/// Replays the look-ups of a recording; one result for each of the probes asked for that it has
/// events of.
///
/// # Errors
/// The recording cannot be read. Wrong answers are no error: see [`ProbeReplay::sound`].
pub fn run(
    recording: &Recording,
    options: &Options,
    progress: &dyn Fn(Progress),
) -> Result<Vec<ProbeReplay>, Error> {
    let mut replays = Vec::new();
    for &probe in &options.probes {
        let replay = probe_replay(recording, probe, options, progress)?;
        if replay.check.events > 0 || replay.check.mmio_cached > 0 || !replay.left_out.is_empty() {
            replays.push(replay);
        }
    }
    Ok(replays)
}

fn probe_replay(
    recording: &Recording,
    probe: Probe,
    options: &Options,
    report: Report<'_>,
) -> Result<ProbeReplay, Error> {
    let mut engines = options.engines.clone().unwrap_or_else(|| usual(probe));
    let mut named = BTreeSet::new();
    engines.retain(|engine| named.insert(*engine));
    let mut fold = Fold::new(probe, engines, options.sample);
    options.last_used.whose(probe).clone_into(&mut fold.check.last_used.whose);
    match probe {
        Probe::PageFault => faults(recording, options, report, &mut fold)?,
        Probe::Translate => translations(recording, options, report, &mut fold)?,
        Probe::Ple => return Err(Error::NoLookups(probe)),
    }
    Ok(assemble(probe, fold, options.rounds, report))
}

fn assemble(probe: Probe, fold: Fold, rounds: u32, report: Report<'_>) -> ProbeReplay {
    let Fold { counts, timing, lookups, left_out, mut check, observed, latency, range, kept, .. } = fold;
    let timing = timing.run(counts.len(), rounds, report);
    let kept = kept.into_items();
    let fitted = predict::fit(&kept, range.unwrap_or((0, 0)));
    check.sampled = kept.len() as u64;
    check.last_used.hit_rate = share(check.last_used.answered, check.last_used.asked);
    check.fit_basis = fitted.basis.map(|basis| basis.text().to_owned());
    check.classes = fitted.classes;
    check.timed_lookups = timing.lookups;
    check.rounds = rounds;
    let outcome = |(place, count): (usize, &Count)| {
        let visited = count.lengths();
        EngineOutcome {
            engine: count.id.name().to_owned(),
            probe,
            lookups: count.lookups,
            mismatches: count.mismatches,
            visited_mean: visited.mean(),
            ns_per_lookup: timing.ns_per_lookup.get(place).copied().unwrap_or_default(),
            classes: class_steps(probe, count, place, &timing),
            predicted: fitted.fit.as_ref().map(|fit| predict::predict(&kept, place, &visited, fit)),
            visited,
        }
    };
    let engines = counts.iter().enumerate().map(outcome).collect();
    // Exact where every event is at hand, else by a histogram: see `stats::Sample`.
    let latency_ns = if check.sampled == check.events {
        predict::latency(&kept)
    } else {
        let [p50, p90, p99] = latency.quantiles([500, 900, 990]).unwrap_or_default();
        Quantiles { p50, p90, p99 }
    };
    ProbeReplay {
        probe,
        lookups,
        left_out,
        observed,
        latency_ns,
        fit: fitted.fit,
        no_fit: fitted.reason,
        engines,
        check,
    }
}

/// An engine's look-ups by class.
fn class_steps(probe: Probe, count: &Count, place: usize, timing: &Timing) -> Vec<ClassSteps> {
    let ns = |class: usize| -> Interval {
        timing.by_class.get(class).and_then(|engines| engines.get(place)).copied().unwrap_or_default()
    };
    classes(probe)
        .iter()
        .enumerate()
        .map(|(class, name)| ClassSteps {
            class: (*name).to_owned(),
            steps: Steps::new(count.lengths_of(class), ns(class)),
        })
        .filter(|class| class.steps.lookups > 0)
        .collect()
}
