//! `memslot record --json`: what programs are told while it records, one document a line.

use memslot::model::Probe;
use memslot::recording::{AttachKind, Meta, ProbeMeta};
use memslot::report::summary::Lost;
use std::collections::BTreeMap;

/// A line of `memslot record --json`.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[schemars(rename = "record")]
pub(crate) enum Line {
    /// The probes are attached, and the files are there.
    Started {
        /// Version of these lines, 1.
        schema: u32,
        /// The recording, as it was named.
        directory: String,
        /// `events`, `sample:N` or `histogram`.
        mode: String,
        /// By probe.
        probes: BTreeMap<Probe, Outcome>,
    },
    /// About once a second.
    Progress {
        /// `CLOCK_MONOTONIC`, ns.
        monotonic: u64,
        /// Calls that the histograms have counted so far.
        calls: u64,
        /// Events that were written so far.
        events: u64,
        /// Calls that were lost so far.
        lost: u64,
    },
    /// The recording is closed, and its accounts are final.
    Finished {
        /// `duration`, `signal`, `command` or `vm_gone`.
        ended_by: String,
        /// Rare things that the probes or the recorder had to say.
        warnings: Vec<String>,
        /// Changes of layouts that are missing.
        layout_records_lost: u64,
        /// By probe.
        probes: BTreeMap<Probe, Outcome>,
    },
}

/// What became of one probe.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Outcome {
    /// How it is attached; null: not at all.
    attached: Option<AttachKind>,
    /// Why it is missing or degraded, and what to do.
    note: Option<String>,
    /// Calls seen at entry.
    entries: u64,
    /// Calls seen at return.
    returns: u64,
    /// Calls that its histograms hold.
    counted: u64,
    /// Events that were written.
    events: u64,
    /// Calls that were lost.
    lost: u64,
    /// Calls that a filter left out.
    filtered: u64,
    /// Calls under way at the end.
    in_flight: u64,
    /// Why its figures do not rest on every call; empty: they do.
    incomplete: Vec<String>,
}

/// What became of every probe that was asked for.
pub(super) fn outcomes(meta: &Meta) -> BTreeMap<Probe, Outcome> {
    let outcome = |probe: &ProbeMeta| Outcome {
        attached: probe.attached.first().map(|attached| attached.kind),
        note: probe.note.clone(),
        entries: probe.account.entries,
        returns: probe.account.returns,
        counted: probe.counted.unwrap_or(0),
        events: probe.events,
        lost: probe.account.lost(),
        filtered: probe.account.filtered,
        in_flight: probe.account.in_flight(),
        incomplete: if probe.is_whole(meta.max_lost) { Vec::new() } else { incomplete(probe) },
    };
    meta.probes.iter().map(|(probe, of_probe)| (*probe, outcome(of_probe))).collect()
}

/// Why a probe's figures do not rest on every call.
pub(super) fn incomplete(meta: &ProbeMeta) -> Vec<String> {
    let lost = Lost::new(&meta.account, meta.events);
    let mut reasons: Vec<_> =
        lost.reasons().into_iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    if meta.residual() > 0 {
        reasons.push(format!("the account does not close by {}", meta.residual()));
    }
    reasons
}
