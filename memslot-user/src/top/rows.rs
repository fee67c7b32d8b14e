//! The table's rows: from figures to what is shown, sorted and filtered.

use super::figures::{Figures, Key, Subject, Window};
use super::source::Tick;
use crate::model::Probe;
use crate::report::summary::Latency;
use std::cmp::Ordering;

/// What rows are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// VMs and vhost devices: every call, from the kernel's histograms.
    #[default]
    Vm,
    /// vCPUs, from the calls that became events.
    Vcpu,
    /// Queues of vhost devices, likewise.
    Queue,
}

impl By {
    /// The name in headings and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vm => "vm",
            Self::Vcpu => "vcpu",
            Self::Queue => "queue",
        }
    }

    /// The next one, round and round.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Vm => Self::Vcpu,
            Self::Vcpu => Self::Queue,
            Self::Queue => Self::Vm,
        }
    }

    fn takes(self, subject: Subject) -> bool {
        match subject {
            Subject::Vm(_) | Subject::Device(_) | Subject::Others => self == Self::Vm,
            Subject::Vcpu(..) => self == Self::Vcpu,
            Subject::Queue(..) => self == Self::Queue,
        }
    }
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// Whose calls they are.
    Name,
    /// Calls a second.
    #[default]
    Rate,
    /// Median latency.
    P50,
    /// 99th percentile of the latency.
    P99,
    /// Longest call.
    Max,
    /// Mean search length.
    Nodes,
    /// Share of RAM searches that the last-used slot answered.
    Hits,
    /// The last PLE window.
    Window,
    /// Calls lost.
    Lost,
}

impl Sort {
    /// All of them, in the order of the columns.
    pub const ALL: [Self; 9] = [
        Self::Name,
        Self::Rate,
        Self::P50,
        Self::P99,
        Self::Max,
        Self::Nodes,
        Self::Hits,
        Self::Window,
        Self::Lost,
    ];

    /// The one so many columns further, round and round.
    #[must_use]
    pub fn step(self, by: usize) -> Self {
        let place = Self::ALL.iter().position(|one| *one == self).unwrap_or(0);
        Self::ALL[(place + by) % Self::ALL.len()]
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Whose calls of which function.
    pub key: Key,
    /// The same for people.
    pub name: String,
    /// Calls: counted, or so many times as many as became events.
    pub calls: u64,
    /// They are known from a sample.
    pub estimated: bool,
    /// Calls a second.
    pub rate: f64,
    /// Latency, ns; `None` without calls.
    pub latency: Option<Latency>,
    /// Mean number of nodes visited; `None` without searches.
    pub nodes: Option<f64>,
    /// Share of RAM searches that the last-used slot answered.
    pub hits: Option<f64>,
    /// PLE windows.
    pub window: Option<Window>,
    /// Calls lost.
    pub lost: u64,
}

#[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Row {
    fn new(key: Key, figures: &Figures, tick: &Tick) -> Self {
        let seen = matches!(key.subject, Subject::Vcpu(..) | Subject::Queue(..));
        let times = if seen { u64::from(tick.every.max(1)) } else { 1 };
        let calls = figures.latency.count() * times;
        #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
        let rate = calls as f64 * 1e9 / tick.span.max(1) as f64;
        Self {
            key,
            name: name(key.subject, tick),
            calls,
            estimated: times > 1,
            rate,
            latency: Latency::new(&figures.latency),
            nodes: share(figures.visited, figures.searches),
            hits: share(figures.hits, figures.ram),
            window: figures.window,
            lost: figures.lost,
        }
    }

    fn compare(&self, other: &Self, sort: Sort) -> Ordering {
        let by = |value: fn(&Self) -> Option<f64>| {
            let rank = |row: &Self| value(row).unwrap_or(f64::NEG_INFINITY);
            // The largest first.
            rank(other).total_cmp(&rank(self))
        };
        let order = match sort {
            Sort::Name => Ordering::Equal,
            Sort::Rate => by(|row| Some(row.rate)),
            Sort::P50 => by(|row| Some(row.latency?.p50)),
            Sort::P99 => by(|row| Some(row.latency?.p99)),
            #[expect(clippy::cast_precision_loss, reason = "only their order counts")]
            Sort::Max => by(|row| Some(row.latency?.max as f64)),
            Sort::Nodes => by(|row| row.nodes),
            Sort::Hits => by(|row| row.hits),
            Sort::Window => by(|row| Some(row.window?.last.into())),
            Sort::Lost => other.lost.cmp(&self.lost),
        };
        order.then(self.key.cmp(&other.key))
    }

    /// Does its name or its function hold the text, whatever the case?
    fn holds(&self, filter: &str) -> bool {
        let filter = filter.to_lowercase();
        self.name.to_lowercase().contains(&filter) || self.key.probe.name().contains(&filter)
    }
}

fn name(subject: Subject, tick: &Tick) -> String {
    let with = |plain: String, of: Subject| match tick.names.get(&of).filter(|name| !name.is_empty()) {
        Some(name) => format!("{plain} {name}"),
        None => plain,
    };
    match subject {
        Subject::Vm(vm) => with(format!("VM {}", vm.0), subject),
        Subject::Device(device) => with(format!("device {}", device.0), subject),
        Subject::Vcpu(vm, vcpu) => with(format!("VM {}/{vcpu}", vm.0), Subject::Vm(vm)),
        Subject::Queue(device, queue) => {
            let queue = queue.map_or_else(|| "?".to_owned(), |queue| queue.to_string());
            with(format!("device {}/{queue}", device.0), Subject::Device(device))
        }
        Subject::Others => "others".into(),
    }
}

/// The rows of an interval.
#[must_use]
pub fn rows(tick: &Tick, by: By, (sort, reversed): (Sort, bool), filter: &str) -> Vec<Row> {
    let all = tick.counted.iter().chain(&tick.seen).filter(|(key, _)| by.takes(key.subject));
    let mut rows: Vec<Row> =
        all.map(|(key, figures)| Row::new(*key, figures, tick)).filter(|row| row.holds(filter)).collect();
    rows.sort_by(|a, b| a.compare(b, sort));
    if reversed {
        rows.reverse();
    }
    rows
}

/// Whether a probe's calls search.
pub(super) fn searches(probe: Probe) -> bool {
    probe != Probe::Ple
}
