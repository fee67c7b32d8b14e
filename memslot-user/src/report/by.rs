//! Latency by VM, vCPU, slot, queue, class or CPU.

use super::summary::Latency;
use super::tables::{part, quantiles, table};
use crate::chart::text::{count, time};
use crate::digest::{Group, add_bucket};
use crate::model::{Class, Fault, PleExit, Probe, Translation};
use crate::recording::{Error, Recording};
use crate::stats::Sample;
use comfy_table::Table;
use std::collections::BTreeMap;

/// What calls are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The VM, or the vhost device.
    Vm,
    /// The vCPU, with its VM.
    Vcpu,
    /// The slot that covers the address, with its VM.
    Slot,
    /// The queue, with its vhost device.
    Queue,
    /// The class of a page fault, or the kind of another call.
    Class,
    /// The CPU at entry.
    Cpu,
}

impl By {
    /// The name in headings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vm => "VM or device",
            Self::Vcpu => "vCPU",
            Self::Slot => "slot",
            Self::Queue => "queue",
            Self::Class => "class",
            Self::Cpu => "CPU",
        }
    }

    /// Do the kernel's histograms tell it?
    fn is_counted(self) -> bool {
        matches!(self, Self::Vm | Self::Class)
    }

    fn of_fault(self, fault: &Fault) -> Option<String> {
        let vm = fault.vm.0;
        match self {
            Self::Vm => Some(format!("VM {vm}")),
            Self::Vcpu => Some(format!("VM {vm}, vCPU {}", fault.vcpu)),
            Self::Slot => Some(match fault.slot {
                Some(slot) => format!("VM {vm}, slot {slot}"),
                None => format!("VM {vm}, no slot"),
            }),
            Self::Queue => None,
            Self::Class => Some(class(fault.class)),
            Self::Cpu => Some(format!("CPU {}", fault.cpu)),
        }
    }

    fn of_ple_exit(self, exit: &PleExit) -> Option<String> {
        let vm = exit.vm.0;
        match self {
            Self::Vm => Some(format!("VM {vm}")),
            Self::Vcpu => Some(format!("VM {vm}, vCPU {}", exit.vcpu)),
            Self::Slot | Self::Queue => None,
            Self::Class => Some(Group::of_ple_exit(exit).key().to_owned()),
            Self::Cpu => Some(format!("CPU {}", exit.cpu)),
        }
    }

    fn of_translation(self, call: &Translation) -> Option<String> {
        let device = call.device.0;
        match self {
            Self::Vm => Some(format!("device {device}")),
            Self::Vcpu | Self::Slot => None,
            Self::Queue => Some(match call.queue {
                Some(queue) => format!("device {device}, queue {queue}"),
                None => format!("device {device}, unknown"),
            }),
            Self::Class => Some(Group::of_translation(call).key().to_owned()),
            Self::Cpu => Some(format!("CPU {}", call.cpu)),
        }
    }
}

fn class(class: Class) -> String {
    class.name().to_owned()
}

/// Latencies told apart.
#[derive(Default)]
struct Parts {
    samples: BTreeMap<(Probe, String), Sample>,
    totals: BTreeMap<Probe, u64>,
}

impl Parts {
    fn of(&mut self, probe: Probe, key: Option<String>, count: u64, sum: u64) {
        let Some(key) = key else { return };
        add_bucket(self.samples.entry((probe, key)).or_default(), count, sum);
        *self.totals.entry(probe).or_default() += count;
    }
}

/// One row of the table: calls that have the same VM, vCPU, … in one recording.
#[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Row {
    /// Label of the recording.
    pub recording: String,
    /// Which calls.
    pub probe: Probe,
    /// The VM, vCPU, slot, queue, class or CPU.
    pub key: String,
    /// Calls of the recording's probe that the table tells apart, all rows together.
    pub total: u64,
    /// Latency, ns.
    pub latency_ns: Latency,
}

/// Latencies by VM, vCPU, slot, queue, class or CPU.
#[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Told {
    /// Version of this document, 1.
    pub schema: u32,
    /// What calls are told apart by.
    pub by: By,
    /// Row by row, in the order of the recordings.
    pub rows: Vec<Row>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

/// Tells calls apart in each recording, which is named by its label. Where events are incomplete, the kernel's
/// histograms step in, if they tell what was asked for.
///
/// # Errors
/// A table of a recording is missing, or its content cannot be understood.
pub fn tell(recordings: &[(String, Recording)], by: By) -> Result<Told, Error> {
    let mut told = Told { schema: 1, by, rows: Vec::new(), notes: Vec::new() };
    for (label, recording) in recordings {
        let (parts, incomplete) = parts(recording, by)?;
        for ((probe, key), sample) in parts.samples {
            let Some(latency) = Latency::new(&sample) else { continue };
            let total = parts.totals.get(&probe).copied().unwrap_or(0);
            told.rows.push(Row { recording: label.clone(), probe, key, total, latency_ns: latency });
        }
        told.notes.extend(incomplete.into_iter().map(|note| format!("{label}, {note}")));
    }
    Ok(told)
}

/// The table for people.
#[must_use]
pub fn text(told: &Told) -> String {
    let mut table: Table =
        table(&["recording", "probe", told.by.name()], &["calls", "share", "p50", "p90", "p99", "max"]);
    for row in &told.rows {
        let latency = row.latency_ns;
        #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
        let max = time(latency.max as f64);
        let head = [row.recording.clone(), row.probe.name().to_owned(), row.key.clone()];
        let counts = [count(latency.count), part(latency.count, row.total)];
        table.add_row(head.into_iter().chain(counts).chain(quantiles(Some(latency))).chain([max]));
    }
    let mut text = format!("By {}\n{}\n", told.by.name(), table.trim_fmt());
    if !told.notes.is_empty() {
        text += &format!("\nNotes\n  {}\n", told.notes.join("\n  "));
    }
    text
}

fn parts(recording: &Recording, by: By) -> Result<(Parts, Vec<String>), Error> {
    let mut parts = Parts::default();
    let mut notes = Vec::new();
    let mut counted = Vec::new();
    for (probe, meta) in &recording.meta().probes {
        let calls = meta.counted.unwrap_or(meta.events);
        if meta.events >= calls {
            continue;
        }
        if by.is_counted() {
            counted.push(*probe);
            notes.push(format!("{}: from the histograms of {} calls", probe.name(), count(calls)));
        } else {
            let events = count(meta.events);
            notes.push(format!("{}: from {events} events of {} calls", probe.name(), count(calls)));
        }
    }
    let from_events = |probe| !counted.contains(&probe);
    if from_events(Probe::PageFault) {
        for fault in recording.faults()? {
            let fault = fault?;
            parts.of(Probe::PageFault, by.of_fault(&fault), 1, fault.latency);
        }
    }
    if from_events(Probe::Ple) {
        for exit in recording.ple_exits()? {
            let exit = exit?;
            parts.of(Probe::Ple, by.of_ple_exit(&exit), 1, exit.latency);
        }
    }
    if from_events(Probe::Translate) {
        for call in recording.translations()? {
            let call = call?;
            parts.of(Probe::Translate, by.of_translation(&call), 1, call.latency);
        }
    }
    if counted.is_empty() {
        return Ok((parts, notes));
    }
    for bucket in recording.histograms()? {
        let bucket = bucket?;
        if !bucket.counts_calls() || !counted.contains(&bucket.probe) {
            continue;
        }
        let key = match (by, bucket.vm, bucket.device) {
            (By::Class, ..) => bucket.kind.name().to_owned(),
            (_, Some(vm), _) => format!("VM {}", vm.0),
            (_, None, Some(device)) => format!("device {}", device.0),
            _ => "unknown".to_owned(),
        };
        parts.of(bucket.probe, Some(key), bucket.count, bucket.sum);
    }
    Ok((parts, notes))
}
