//! The rows as JSON: an object an interval, on a line of its own.

use super::figures::Subject;
use super::rows::{By, Row};
use super::source::Tick;
use crate::model::Probe;
use serde::Serialize;

/// Version of the layout. It changes when a key goes or changes its meaning, not when one is added.
pub const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Document {
    schema: u32,
    /// End of the interval, `CLOCK_MONOTONIC` ns.
    time_ns: u64,
    /// Its length.
    span_ns: u64,
    by: &'static str,
    /// One call in so many became an event; 0: none. Rows by VM and device hold every call whatever this is.
    every: u32,
    /// Calls lost in the interval.
    lost: u64,
    rows: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    probe: Probe,
    vm: Option<u32>,
    vcpu: Option<u32>,
    device: Option<u32>,
    queue: Option<u16>,
    name: String,
    calls: u64,
    /// The calls are those of a sample, times its rate.
    estimated: bool,
    calls_per_s: f64,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
    max_ns: Option<u64>,
    mean_visited: Option<f64>,
    last_used_hit_share: Option<f64>,
    window: Option<Window>,
    lost: u64,
}

#[derive(Serialize)]
struct Window {
    low: u32,
    high: u32,
    last: u32,
}

impl Line {
    fn new(row: &Row) -> Self {
        let (mut vm, mut vcpu, mut device, mut queue) = (None, None, None, None);
        match row.key.subject {
            Subject::Vm(id) => vm = Some(id.0),
            Subject::Vcpu(id, number) => (vm, vcpu) = (Some(id.0), Some(number)),
            Subject::Device(id) => device = Some(id.0),
            Subject::Queue(id, index) => (device, queue) = (Some(id.0), index),
            Subject::Others => {}
        }
        Self {
            probe: row.key.probe,
            vm,
            vcpu,
            device,
            queue,
            name: row.name.clone(),
            calls: row.calls,
            estimated: row.estimated,
            calls_per_s: row.rate,
            p50_ns: row.latency.map(|latency| latency.p50),
            p99_ns: row.latency.map(|latency| latency.p99),
            max_ns: row.latency.map(|latency| latency.max),
            mean_visited: row.nodes,
            last_used_hit_share: row.hits,
            window: row.window.map(|one| Window { low: one.low, high: one.high, last: one.last }),
            lost: row.lost,
        }
    }
}

/// The interval in one line, which it ends.
///
/// # Errors
/// Never for these figures.
pub fn line(rows: &[Row], by: By, tick: &Tick) -> serde_json::Result<String> {
    let document = Document {
        schema: SCHEMA,
        time_ns: tick.time,
        span_ns: tick.span,
        by: by.name(),
        every: tick.every,
        lost: tick.lost(),
        rows: rows.iter().map(Line::new).collect(),
    };
    serde_json::to_string(&document).map(|line| line + "\n")
}
