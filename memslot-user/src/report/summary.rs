//! `summary.json`: the figures of one or several recordings, for machines.

use crate::digest::{Digest, ProbeDigest};
use crate::model::Probe;
use crate::recording::{Account, Attached, ProbeMeta};
use crate::replay::{Check, Fit, Interval, Prediction};
use crate::stats::Sample;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the summary's layout. It changes when a key goes or changes its meaning, not when one
/// is added.
pub const SCHEMA: u32 = 1;

/// `summary.json`
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Summary {
    /// [`SCHEMA`]
    pub schema: u32,
    /// How the recordings came about: `live` on this host, `lab` in a virtual machine, or
    /// `recording` where that is not known.
    pub mode: String,
    /// Kernel release; those of several recordings are joined by `, ` where they differ.
    pub kernel: String,
    /// Host name, likewise.
    pub host: String,
    /// Hypervisor under which the host itself ran, whose time it is; null on bare metal.
    pub virtualised: Option<String>,
    /// Every recording is whole: ended in order, no call lost, every event read.
    pub complete: bool,
    /// How each probe was attached: `fentry`, `kprobe`, both joined by `+`, or `none`.
    pub attach: BTreeMap<Probe, String>,
    /// Figures of each probe over all recordings.
    pub probes: BTreeMap<Probe, ProbeSummary>,
    /// What each engine did, by recording and probe: never averaged over recordings, whose layouts
    /// differ.
    pub engines: Vec<EngineSummary>,
    /// File names of the charts drawn.
    pub charts: Vec<String>,
    /// The same figures recording by recording.
    pub recordings: Vec<RecordingSummary>,
}

/// One recording.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct RecordingSummary {
    /// Its label, else its directory's name.
    pub label: String,
    /// Kernel release.
    pub kernel: String,
    /// Host name.
    pub host: String,
    /// Hypervisor under which the host itself ran.
    pub virtualised: Option<String>,
    /// As in [`Summary::complete`].
    pub complete: bool,
    /// Most slots that one address space of a VM held; null where no layout was recorded.
    pub slots: Option<u64>,
    /// Most regions of a vhost table that was searched; null without translations.
    pub regions: Option<u64>,
    /// As in [`Summary::attach`].
    pub attach: BTreeMap<Probe, String>,
    /// Figures of each probe.
    pub probes: BTreeMap<Probe, ProbeSummary>,
    /// What the replay of each probe's look-ups found.
    pub replays: BTreeMap<Probe, ReplaySummary>,
    /// What the yields of the PLE exits came to; null without PLE exits.
    pub yields: Option<YieldSummary>,
}

/// One probe.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct ProbeSummary {
    /// Calls of the probed function seen at entry.
    pub entries: u64,
    /// Calls seen at return.
    pub returns: u64,
    /// Events read from the recording.
    pub events: u64,
    /// Calls whose event is not in the recording, and events that were emitted but not read.
    pub lost: Lost,
    /// Calls that the kernel's histograms hold: complete also where events are not.
    #[serde(default)]
    pub counted: u64,
    /// Calls left out because a filter asked for others.
    #[serde(default)]
    pub filtered: u64,
    /// Where latency and search lengths come from: `events`, or `histogram` where those are incomplete.
    #[serde(default)]
    pub source: String,
    /// By how much the account does not close; 0 unless a counter is wrong.
    #[serde(default)]
    pub residual: u64,
    /// Calls that were under way when the probes were detached.
    pub unfinished: u64,
    /// Returns of calls that began before the probe was attached.
    pub no_start: u64,
    /// Wall time of one call; null without events.
    pub latency_ns: Option<Latency>,
    /// Of which on a CPU; null where that is not known.
    #[serde(default)]
    pub on_cpu_ns: Option<Latency>,
    /// The same by kind of call.
    pub latency_ns_by_kind: BTreeMap<String, Latency>,
    /// Nodes that the kernel's own search visited; null where the probed function searches nothing.
    pub search_length: Option<SearchLengths>,
}

/// Lost events by reason; `total` is their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Lost {
    /// All of them.
    pub total: u64,
    /// The ring buffer was full.
    pub ring_full: u64,
    /// The return never came (a missed kretprobe).
    pub return_lost: u64,
    /// No memory for the start record.
    pub start_full: u64,
    /// The clock ran backwards between entry and return.
    pub clock_back: u64,
    /// The kernel skipped the probe, because one was running on that CPU.
    pub missed: u64,
    /// The histogram had no place: the call is in no histogram.
    #[serde(default)]
    pub histogram_full: u64,
    /// Too many calls in flight in one task.
    #[serde(default)]
    pub nested: u64,
    /// The task or the VM ended with the call in flight.
    #[serde(default)]
    pub gone: u64,
    /// Handed to the ring buffer, but not in the recording: it was cut off.
    pub not_recorded: u64,
}

/// Wall time of calls, ns. Quantiles interpolate between the two nearest values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
    /// Calls.
    pub count: u64,
}

/// Search lengths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct SearchLengths {
    /// Mean number of nodes visited; 0 without searches.
    pub mean: f64,
    /// Number of nodes visited (0: the last-used slot answered) to number of calls.
    pub histogram: BTreeMap<u32, u64>,
    /// Distinct nodes read to number of calls.
    pub touched_histogram: BTreeMap<u32, u64>,
    /// Searches whose walk could not be followed.
    pub unknown: u64,
}

/// What one engine did with the look-ups of one probe in one recording.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct EngineSummary {
    /// The engine's name.
    pub engine: String,
    /// Which look-ups.
    pub probe: Probe,
    /// Of which recording, by its label.
    pub recording: String,
    /// Look-ups made.
    pub lookups: u64,
    /// Of them with another answer than `linear`.
    pub mismatches: u64,
    /// Mean number of nodes or elements visited.
    pub visited_mean: f64,
    /// Time of one look-up on the replaying machine, ns.
    pub ns_per_lookup: f64,
    /// Its 95 % interval.
    pub ns_per_lookup_interval: Interval,
    /// Latency that the calls would have had; null where no fit was possible.
    pub predicted: Option<Prediction>,
}

/// The replay of one probe's look-ups.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct ReplaySummary {
    /// Look-ups replayed.
    pub lookups: u64,
    /// Events left out, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// The cost of a step; null where it could not be told.
    pub fit: Option<Fit>,
    /// Why it could not.
    pub no_fit: Option<String>,
    /// How far the replay can be trusted: search lengths compared with the model of the kernel's tree.
    pub check: Check,
}

/// Outcomes of `yield_to` within PLE exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct YieldSummary {
    /// Calls.
    pub tried: u64,
    /// Another vCPU was boosted.
    pub boosted: u64,
    /// The scheduler declined.
    pub declined: u64,
    /// Both run queues held one task.
    pub undercommit: u64,
}

impl Summary {
    /// The summary of recordings. `mode` says how they came about, `charts` what was drawn of them.
    #[must_use]
    pub fn new(mode: &str, digests: &[Digest], charts: Vec<String>) -> Self {
        let recordings: Vec<RecordingSummary> = digests.iter().map(RecordingSummary::new).collect();
        let probes = Probe::ALL.map(|probe| {
            let mut figures = ProbeDigest::default();
            let mut account = Account::default();
            for digest in digests {
                figures.merge(digest.probe(probe));
                digest.probe_meta(probe).inspect(|meta| account.add(&meta.account));
            }
            let residual =
                digests.iter().filter_map(|digest| digest.probe_meta(probe)).map(ProbeMeta::residual);
            (probe, ProbeSummary::new(probe, &figures, &account, residual.sum()))
        });
        let attach = Probe::ALL.map(|probe| {
            let all = digests.iter().filter_map(|digest| digest.probe_meta(probe));
            (probe, attach_kind(all.flat_map(|meta| &meta.attached)))
        });
        let joined = |name: fn(&RecordingSummary) -> Option<&str>| {
            let names: BTreeSet<&str> = recordings.iter().filter_map(name).collect();
            names.into_iter().collect::<Vec<_>>().join(", ")
        };
        Self {
            schema: SCHEMA,
            mode: mode.to_owned(),
            kernel: joined(|recording| Some(&recording.kernel)),
            host: joined(|recording| Some(&recording.host)),
            virtualised: Some(joined(|recording| recording.virtualised.as_deref()))
                .filter(|names| !names.is_empty()),
            complete: recordings.iter().all(|recording| recording.complete),
            attach: attach.into(),
            probes: probes.into(),
            engines: digests.iter().flat_map(engines).collect(),
            charts,
            recordings,
        }
    }

    /// The summary as JSON, indented, with a final newline.
    ///
    /// # Errors
    /// Never for a summary built by [`Summary::new`].
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

/// The kinds of attachment, in one word.
pub(crate) fn attach_kind<'a>(attached: impl Iterator<Item = &'a Attached>) -> String {
    let kinds: BTreeSet<&str> = attached.map(|one| one.kind.name()).collect();
    if kinds.is_empty() { "none".into() } else { kinds.into_iter().collect::<Vec<_>>().join("+") }
}

fn engines(digest: &Digest) -> impl Iterator<Item = EngineSummary> {
    digest.replays.iter().flat_map(|replay| &replay.engines).map(|engine| EngineSummary {
        engine: engine.engine.clone(),
        probe: engine.probe,
        recording: digest.label.clone(),
        lookups: engine.lookups,
        mismatches: engine.mismatches,
        visited_mean: engine.visited_mean,
        ns_per_lookup: engine.ns_per_lookup.value,
        ns_per_lookup_interval: engine.ns_per_lookup,
        predicted: engine.predicted,
    })
}

impl RecordingSummary {
    fn new(digest: &Digest) -> Self {
        let meta = &digest.meta;
        let probes = Probe::ALL.map(|probe| {
            let meta = digest.probe_meta(probe);
            let account = meta.map(|meta| meta.account).unwrap_or_default();
            let residual = meta.map_or(0, ProbeMeta::residual);
            (probe, ProbeSummary::new(probe, digest.probe(probe), &account, residual))
        });
        let attach = Probe::ALL.map(|probe| {
            let attached = digest.probe_meta(probe).map(|meta| meta.attached.as_slice()).unwrap_or_default();
            (probe, attach_kind(attached.iter()))
        });
        let replays = digest.replays.iter().map(|replay| {
            let summary = ReplaySummary {
                lookups: replay.lookups,
                left_out: replay.left_out.clone(),
                fit: replay.fit,
                no_fit: replay.no_fit.clone(),
                check: replay.check.clone(),
            };
            (replay.probe, summary)
        });
        let yields = digest.yields;
        Self {
            label: digest.label.clone(),
            kernel: meta.host.kernel.clone(),
            host: meta.host.name.clone(),
            virtualised: meta.host.virtualised.clone(),
            complete: meta.complete
                && probes.iter().all(|(_, probe)| probe.lost.total <= meta.max_lost && probe.residual == 0),
            slots: digest.slots,
            regions: digest.regions,
            attach: attach.into(),
            probes: probes.into(),
            replays: replays.collect(),
            yields: (digest.ple.latency.count() > 0).then_some(YieldSummary {
                tried: yields.tried,
                boosted: yields.boosted,
                declined: yields.declined,
                undercommit: yields.undercommit,
            }),
        }
    }
}

impl ProbeSummary {
    fn new(probe: Probe, figures: &ProbeDigest, account: &Account, residual: u64) -> Self {
        let events = figures.events;
        let kinds = figures.by_group.iter();
        Self {
            entries: account.entries,
            returns: account.returns,
            events,
            lost: Lost::new(account, events),
            counted: figures.counted,
            filtered: account.filtered,
            source: figures.source.name().to_owned(),
            residual,
            unfinished: account.in_flight(),
            no_start: account.no_start,
            latency_ns: Latency::new(&figures.latency),
            on_cpu_ns: Latency::new(&figures.on_cpu),
            latency_ns_by_kind: kinds
                .filter_map(|(group, sample)| Some((group.key().to_owned(), Latency::new(sample)?)))
                .collect(),
            search_length: (probe != Probe::Ple).then(|| SearchLengths {
                mean: figures.visited.mean(),
                histogram: figures.visited.0.clone(),
                touched_histogram: figures.touched.0.clone(),
                unknown: figures.unknown_length,
            }),
        }
    }
}

impl Lost {
    /// The losses of an account, of whose events so many were read.
    #[must_use]
    pub fn new(account: &Account, events: u64) -> Self {
        let not_recorded = account.emitted.saturating_sub(events);
        Self {
            total: account.lost() + not_recorded,
            ring_full: account.ring_full,
            return_lost: account.return_lost,
            start_full: account.start_full,
            clock_back: account.clock_back,
            missed: account.missed,
            histogram_full: account.histogram_full,
            nested: account.nested,
            gone: account.gone,
            not_recorded,
        }
    }

    /// Those that occurred, in words.
    #[must_use]
    pub fn reasons(&self) -> Vec<(&'static str, u64)> {
        [
            ("ring buffer full", self.ring_full),
            ("return missed", self.return_lost),
            ("no memory for the start", self.start_full),
            ("clock ran backwards", self.clock_back),
            ("probe skipped by the kernel", self.missed),
            ("histogram full", self.histogram_full),
            ("too deeply nested", self.nested),
            ("task or VM gone", self.gone),
            ("not recorded", self.not_recorded),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
    }
}

impl Latency {
    /// The figures of a sample; `None` of no values.
    #[must_use]
    pub fn new(sample: &Sample) -> Option<Self> {
        let [p50, p90, p99] = sample.quantiles([500, 900, 990])?;
        Some(Self {
            p50,
            p90,
            p99,
            min: sample.min()?,
            max: sample.max()?,
            mean: sample.mean()?,
            count: sample.count(),
        })
    }
}
