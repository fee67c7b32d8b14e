//! What the probes and the reader are held to.

use super::{Reader, figures::Kernel};
use serde::Serialize;
use std::collections::BTreeMap;

/// Instructions that a histogram may add without the walk.
const HISTOGRAM: f64 = 1000.0;
/// Of bpftrace's histogram by kprobe, the share that ours may add.
const HISTOGRAM_SHARE: f64 = 0.5;
/// Instructions that a whole event with its search length may add.
const EVENT: f64 = 2000.0;
/// Instructions of the walk for a node, on the kernel without a shorter way.
const NODE: f64 = 100.0;
/// Events that one core must decode and record in a second.
const EVENTS_PER_S: f64 = 2e6;
/// Bytes that an event may take on disk.
const BYTES: f64 = 16.0;

/// One target.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Target {
    /// What is asked for, and where.
    pub(super) target: String,
    /// The figure; none where it could not be measured.
    pub(super) measured: Option<f64>,
    /// What it must keep to.
    pub(super) limit: f64,
    /// Whether it does.
    pub(super) met: Option<bool>,
    /// Why it could not be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<&'static str>,
}

fn at_most(target: String, measured: Option<f64>, limit: f64) -> Target {
    let note = measured.is_none().then_some("this memslot has no such mode");
    Target { target, measured, limit, met: measured.map(|measured| measured <= limit), note }
}

/// All targets.
pub(super) fn targets(kernels: &BTreeMap<String, Kernel>, readers: &[Reader]) -> Vec<Target> {
    let mut all = Vec::new();
    for (release, kernel) in kernels {
        let added = &kernel.translate.added;
        let bpftrace = added.get("bpftrace_kprobe").copied().unwrap_or(0.0);
        let (histogram, event) = (added.get("histogram").copied(), added.get("event").copied());
        let without = kernel.walk.get("histogram").map(|walk| walk.without);
        let mut add = |what: &str, measured, limit| {
            all.push(at_most(format!("{what} on {release}"), measured, limit));
        };
        add("histogram without the walk, instructions a call", without, HISTOGRAM);
        add("histogram, half of bpftrace's by kprobe", histogram, HISTOGRAM_SHARE * bpftrace);
        add("event with search length, instructions a call", event, EVENT);
        add("event, no more than bpftrace's histogram by kprobe", event, bpftrace);
        if release.starts_with("6.1.") {
            add("walk, instructions a node", Some(kernel.walk_per_node), NODE);
        }
    }
    for reader in readers {
        let what = &reader.records;
        let rate = reader.events_per_s.value;
        all.push(Target {
            target: format!("{what}: events decoded and recorded in a second of one core, at least"),
            measured: Some(rate),
            limit: EVENTS_PER_S,
            met: Some(rate >= EVENTS_PER_S),
            note: None,
        });
        all.push(at_most(format!("{what}: bytes an event on disk"), Some(reader.bytes_per_event), BYTES));
    }
    all
}
