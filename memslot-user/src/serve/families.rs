//! Totals to metric families: the one place that names metrics and labels.

use super::family::{Family, Histogram, Kind, Metric, Value};
use super::http::Served;
use super::names::Labels;
use super::totals::Totals;
use crate::model::Probe;
use crate::recording::{Account, ProbeMeta};
use std::collections::BTreeMap;

/// What is known besides the totals.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Version of memslot.
    pub version: String,
    /// Its git revision; empty where it is not known.
    pub revision: String,
    /// `uname -r` of the host.
    pub kernel: String,
    /// How the probes are attached, and their accounts.
    pub probes: BTreeMap<Probe, ProbeMeta>,
    /// When the counters were read, `CLOCK_REALTIME` ns.
    pub read_at: u64,
    /// What became of requests so far.
    pub served: Served,
}

type Labelled = Vec<(&'static str, String)>;

/// Every family, in the order in which they are shown.
pub(super) fn all(totals: &Totals, source: &Source) -> Vec<Family> {
    let mut families = vec![build(source), attached(source)];
    families.extend(calls(totals));
    families.extend(counts(totals, source));
    families.extend(own(totals, source));
    families
}

fn number(labels: Labelled, value: u64) -> Metric {
    #[expect(clippy::cast_precision_loss, reason = "as Prometheus keeps it")]
    let value = value as f64;
    Metric { labels, value: Value::Number(value) }
}

fn build(source: &Source) -> Family {
    let labels = vec![
        ("version", source.version.clone()),
        ("revision", source.revision.clone()),
        ("kernel", source.kernel.clone()),
    ];
    Family {
        name: "memslot_build",
        help: "Version and git revision of memslot, and the kernel that it measures.",
        unit: None,
        kind: Kind::Info,
        metrics: vec![number(labels, 1)],
    }
}

fn attached(source: &Source) -> Family {
    let metric = |(probe, meta): (&Probe, &ProbeMeta)| {
        let by = meta.attached.first().map_or("none", |function| function.kind.name());
        let labels = vec![("probe", probe.name().to_owned()), ("by", by.to_owned())];
        number(labels, u64::from(!meta.attached.is_empty()))
    };
    Family {
        name: "memslot_probe_attached",
        help: "Whether the probe is attached, and how.",
        unit: None,
        kind: Kind::Gauge,
        metrics: source.probes.iter().map(metric).collect(),
    }
}

fn of_vm(probe: Probe, Labels { vm, pid }: Labels) -> Labelled {
    vec![("probe", probe.name().to_owned()), ("vm", vm), ("pid", pid)]
}

/// Times and search lengths by VM, probe and kind of call.
fn calls(totals: &Totals) -> [Family; 3] {
    let (mut wall, mut on_cpu, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for ((labels, probe, kind), calls) in totals.labelled() {
        let mut labels = of_vm(probe, labels);
        labels.push(("kind", kind.name().to_owned()));
        let metric =
            |histogram: Histogram| Metric { labels: labels.clone(), value: Value::Histogram(histogram) };
        wall.push(metric(calls.wall.histogram()));
        on_cpu.extend(calls.on_cpu.as_ref().map(|times| metric(times.histogram())));
        if !calls.lengths.is_empty() {
            lengths.push(metric(calls.lengths.histogram()));
        }
    }
    [
        Family {
            name: "memslot_call_duration_seconds",
            help: "Wall time of calls of the probed function.",
            unit: Some("seconds"),
            kind: Kind::Histogram,
            metrics: wall,
        },
        Family {
            name: "memslot_call_on_cpu_seconds",
            help: "The part of it that the task was on a CPU.",
            unit: Some("seconds"),
            kind: Kind::Histogram,
            metrics: on_cpu,
        },
        Family {
            name: "memslot_search_length_nodes",
            help: "Nodes that the kernel's search stands at; 0: the last-used slot answered.",
            unit: Some("nodes"),
            kind: Kind::Histogram,
            metrics: lengths,
        },
    ]
}

/// A figure of an account.
type Counter = fn(&Account) -> u64;

/// Ways in which a call can be lost, by the names that `meta.json` has.
const REASONS: [(&str, Counter); 8] = [
    ("ring_full", |account| account.ring_full),
    ("histogram_full", |account| account.histogram_full),
    ("return_lost", |account| account.return_lost),
    ("start_full", |account| account.start_full),
    ("nested", |account| account.nested),
    ("clock_back", |account| account.clock_back),
    ("gone", |account| account.gone),
    ("missed", |account| account.missed),
];

/// What was counted, and what was lost.
fn counts(totals: &Totals, source: &Source) -> [Family; 5] {
    let of = |probe: &Probe| ("probe", probe.name().to_owned());
    let lost = totals.accounts.iter().flat_map(|(probe, account)| {
        REASONS.map(|(reason, count)| number(vec![of(probe), ("reason", reason.to_owned())], count(account)))
    });
    let by_probe = |value: fn(&ProbeMeta) -> u64| -> Vec<Metric> {
        source.probes.iter().map(|(probe, meta)| number(vec![of(probe)], value(meta))).collect()
    };
    let returns = totals.accounts.iter().map(|(probe, account)| number(vec![of(probe)], account.returns));
    let entries =
        totals.entries().into_iter().map(|((labels, probe), count)| number(of_vm(probe, labels), count));
    [
        Family {
            name: "memslot_entries",
            help: "Calls of the probed function that were seen at entry.",
            unit: None,
            kind: Kind::Counter,
            metrics: entries.collect(),
        },
        Family {
            name: "memslot_returns",
            help: "Returns of the probed function that were seen.",
            unit: None,
            kind: Kind::Counter,
            metrics: returns.collect(),
        },
        Family {
            name: "memslot_lost_calls",
            help: "Calls that are missing from the figures, by reason.",
            unit: None,
            kind: Kind::Counter,
            metrics: lost.collect(),
        },
        Family {
            name: "memslot_account_residual",
            help: "By how many calls the probe's account does not close; 0, unless a counter is wrong.",
            unit: None,
            kind: Kind::Gauge,
            metrics: by_probe(ProbeMeta::residual),
        },
        Family {
            name: "memslot_calls_in_flight",
            help: "Calls that had not returned when the counters were read.",
            unit: None,
            kind: Kind::Gauge,
            metrics: by_probe(|meta| meta.account.in_flight()),
        },
    ]
}

/// memslot itself.
fn own(totals: &Totals, source: &Source) -> [Family; 3] {
    let vms = [("own", totals.names.used()), ("shared", totals.names.sharing())];
    #[expect(clippy::cast_precision_loss, reason = "as Prometheus keeps it")]
    let read_at = source.read_at as f64 * 1e-9;
    let Served { answered, refused, evicted, timed_out } = source.served;
    let ends = [("answered", answered), ("refused", refused), ("evicted", evicted), ("timed_out", timed_out)];
    [
        Family {
            name: "memslot_vms",
            help: "VMs and vhost devices that have series of their own, and that share those of vm=\"other\".",
            unit: None,
            kind: Kind::Gauge,
            metrics: vms
                .map(|(series, count)| number(vec![("series", series.to_owned())], count as u64))
                .into(),
        },
        Family {
            name: "memslot_read_timestamp_seconds",
            help: "When the kernel's counters were read last.",
            unit: Some("seconds"),
            kind: Kind::Gauge,
            metrics: vec![Metric { labels: Vec::new(), value: Value::Number(read_at) }],
        },
        Family {
            name: "memslot_http_connections",
            help: "Connections to this server, by how they ended.",
            unit: None,
            kind: Kind::Counter,
            metrics: ends.map(|(end, count)| number(vec![("end", end.to_owned())], count)).into(),
        },
    ]
}
