//! A replay from a recording to its figures.

use super::count::{Count, count};
use super::engines::{Built, usual};
use super::join::{self, Group, Joined};
use super::outcome::{EngineOutcome, Lengths, ProbeReplay};
use super::predict;
use super::timing::Sample;
use crate::engine::EngineId;
use crate::model::Probe;
use crate::recording::{self, Recording};

/// What to replay, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The probes whose events make look-ups; PLE exits make none.
    pub probes: Vec<Probe>,
    /// The engines; `None`: those that the probe's kernel has, had, or could have.
    pub engines: Option<Vec<EngineId>>,
    /// Rounds of timing; 0 leaves the times 0.
    pub rounds: u32,
    /// The last-used slot stays in front of every engine; otherwise each event is a look-up.
    pub last_used: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { probes: vec![Probe::PageFault, Probe::Translate], engines: None, rounds: 21, last_used: true }
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
    /// More events than can be numbered.
    #[error("the recording has more than {} events of a probe; record for a shorter time", u32::MAX - 1)]
    TooManyEvents,
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
        if replay.check.events > 0 || replay.check.without_search > 0 || !replay.left_out.is_empty() {
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
    let engines = options.engines.clone().unwrap_or_else(|| usual(probe));
    let mut counts: Vec<Count> = engines.into_iter().map(Count::new).collect();
    let mut sample = Sample::default();
    let mut visit = |joined: &Joined, group: &Group<'_>| {
        let built: Vec<Built> = count(&mut counts, group, joined.events.len());
        sample.offer(built, group.lookups);
    };
    let joined = match probe {
        Probe::PageFault => join::faults(recording, options.last_used, report, &mut visit)?,
        Probe::Translate => join::translations(recording, report, &mut visit)?,
        Probe::Ple => return Err(Error::NoLookups(probe)),
    };
    let timing = sample.run(counts.len(), options.rounds, report);
    Ok(assemble(probe, joined, &counts, timing, options.rounds))
}

fn assemble(
    probe: Probe,
    joined: Joined,
    counts: &[Count],
    timing: super::timing::Timing,
    rounds: u32,
) -> ProbeReplay {
    let Joined { events, lookups, left_out, mut check } = joined;
    let mut observed = Lengths::default();
    events.iter().filter_map(|event| event.observed).for_each(|length| observed.add(length.visited));
    let fitted = predict::fit(&events);
    check.fit_basis = fitted.basis.map(|basis| basis.text().to_owned());
    check.classes = fitted.classes;
    check.timed_lookups = timing.lookups;
    check.rounds = rounds;
    let outcome = |(count, ns_per_lookup): (&Count, _)| {
        let visited = count.lengths();
        EngineOutcome {
            engine: count.id.name().to_owned(),
            probe,
            lookups: count.lookups,
            mismatches: count.mismatches,
            visited_mean: visited.mean(),
            visited,
            ns_per_lookup,
            predicted: fitted.fit.as_ref().map(|fit| predict::predict(&events, count, fit)),
        }
    };
    let engines = counts.iter().zip(timing.ns_per_lookup).map(outcome).collect();
    ProbeReplay {
        probe,
        lookups,
        left_out,
        observed,
        latency_ns: predict::latency(&events),
        fit: fitted.fit,
        no_fit: fitted.reason,
        engines,
        check,
    }
}
