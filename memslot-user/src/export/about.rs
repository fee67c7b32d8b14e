//! What `meta.json` says, as tables: so that hosts, VMs and losses of a whole fleet can be asked about.

use crate::recording::{Meta, ProbeMeta};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;

/// A table that is made of `meta.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// One row a recording: the machine, the tool, the mode, whether it is whole.
    Recordings,
    /// One row a probe: how it was attached, its account.
    Probes,
    /// One row a VM.
    Vms,
    /// One row a vhost device.
    Devices,
    /// One row a vhost table.
    VhostTables,
}

impl About {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Recordings, Self::Probes, Self::Vms, Self::Devices, Self::VhostTables];

    /// The table's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recordings => "recordings",
            Self::Probes => "probes",
            Self::Vms => "vms",
            Self::Devices => "devices",
            Self::VhostTables => "vhost_tables",
        }
    }

    /// The rows of one recording.
    pub(super) fn batch(self, meta: &Meta) -> RecordBatch {
        match self {
            Self::Recordings => recordings(meta),
            Self::Probes => probes(meta),
            Self::Vms => vms(meta),
            Self::Devices => devices(meta),
            Self::VhostTables => vhost_tables(meta),
        }
    }
}

/// Collects columns of one length.
#[derive(Default)]
struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn add(&mut self, name: &str, kind: DataType, array: ArrayRef) {
        self.fields.push(Field::new(name, kind, true));
        self.arrays.push(array);
    }

    fn texts<'a>(&mut self, name: &str, values: impl IntoIterator<Item = Option<&'a str>>) {
        self.add(name, DataType::Utf8, Arc::new(values.into_iter().collect::<StringArray>()));
    }

    fn numbers(&mut self, name: &str, values: impl IntoIterator<Item = Option<u64>>) {
        self.add(name, DataType::UInt64, Arc::new(values.into_iter().collect::<UInt64Array>()));
    }

    fn small(&mut self, name: &str, values: impl IntoIterator<Item = Option<u32>>) {
        self.add(name, DataType::UInt32, Arc::new(values.into_iter().collect::<UInt32Array>()));
    }

    fn flags(&mut self, name: &str, values: impl IntoIterator<Item = bool>) {
        let array: BooleanArray = values.into_iter().map(Some).collect();
        self.add(name, DataType::Boolean, Arc::new(array));
    }

    fn batch(self) -> RecordBatch {
        let schema = Arc::new(Schema::new(self.fields));
        // Columns of one length and type are all that it asks for.
        RecordBatch::try_new(schema.clone(), self.arrays).unwrap_or_else(|_| RecordBatch::new_empty(schema))
    }
}

fn recordings(meta: &Meta) -> RecordBatch {
    let mut columns = Columns::default();
    let host = &meta.host;
    columns.small("schema", [Some(meta.schema)]);
    columns.texts("tool", [Some(meta.tool.as_str())]);
    columns.texts("label", [meta.label.as_deref()]);
    columns.texts("kernel_version", [Some(host.kernel_version.as_str())]);
    columns.texts("cpu_model", [Some(host.cpu_model.as_str())]);
    columns.texts("cpu_vendor", [Some(host.cpu_vendor.as_str())]);
    columns.small("cpus", [Some(host.cpus)]);
    columns.texts("virtualised", [host.virtualised.as_deref()]);
    columns.numbers("start", [Some(meta.start.realtime)]);
    let duration = meta.complete.then(|| meta.end.monotonic.saturating_sub(meta.start.monotonic));
    columns.numbers("duration", [duration]);
    columns.flags("complete", [meta.complete]);
    columns.texts("ended_by", [Some(meta.ended_by.as_str())]);
    columns.texts("mode", [Some(meta.mode.as_str())]);
    columns.texts("filters", [Some(meta.filters.join(" ").as_str())]);
    let parameters = serde_json::to_string(&meta.parameters).unwrap_or_default();
    columns.texts("parameters", [Some(parameters.as_str())]);
    columns.batch()
}

/// A figure of a probe.
type Counter = fn(&ProbeMeta) -> u64;

fn probes(meta: &Meta) -> RecordBatch {
    let mut columns = Columns::default();
    let all = || meta.probes.values();
    columns.texts("probe", meta.probes.keys().map(|probe| Some(probe.name())));
    columns.texts("attached", all().map(|probe| probe.attached.first().map(|function| function.kind.name())));
    columns.texts("note", all().map(|probe| probe.note.as_deref()));
    columns.numbers("events", all().map(|probe| Some(probe.events)));
    columns.numbers("counted", all().map(|probe| probe.counted));
    let counters: [(&str, Counter); 11] = [
        ("entries", |probe| probe.account.entries),
        ("returns", |probe| probe.account.returns),
        ("filtered", |probe| probe.account.filtered),
        ("not_sampled", |probe| probe.account.not_sampled),
        ("lost", |probe| probe.account.lost()),
        ("ring_full", |probe| probe.account.ring_full),
        ("histogram_full", |probe| probe.account.histogram_full),
        ("missed", |probe| probe.account.missed),
        ("return_lost", |probe| probe.account.return_lost),
        ("in_flight", |probe| probe.account.in_flight()),
        ("residual", ProbeMeta::residual),
    ];
    for (name, counter) in counters {
        columns.numbers(name, all().map(|probe| Some(counter(probe))));
    }
    columns.flags("whole", all().map(|probe| meta.complete && probe.is_whole(meta.max_lost)));
    columns.batch()
}

fn vms(meta: &Meta) -> RecordBatch {
    let mut columns = Columns::default();
    columns.small("vm", meta.vms.iter().map(|vm| Some(vm.vm.0)));
    columns.small("pid", meta.vms.iter().map(|vm| Some(vm.pid)));
    columns.texts("name", meta.vms.iter().map(|vm| Some(vm.name.as_str())));
    columns.flags("older", meta.vms.iter().map(|vm| vm.older));
    columns.numbers("gone", meta.vms.iter().map(|vm| vm.gone));
    columns.batch()
}

fn devices(meta: &Meta) -> RecordBatch {
    let mut columns = Columns::default();
    columns.small("device", meta.devices.iter().map(|device| Some(device.device.0)));
    columns.texts("worker", meta.devices.iter().map(|device| Some(device.worker.as_str())));
    columns.small("pid", meta.devices.iter().map(|device| device.pid));
    columns.batch()
}

fn vhost_tables(meta: &Meta) -> RecordBatch {
    let mut columns = Columns::default();
    columns.small("table", meta.tables.iter().map(|table| Some(table.table.0)));
    columns.small("device", meta.tables.iter().map(|table| Some(table.device.0)));
    columns.flags("older", meta.tables.iter().map(|table| table.older));
    columns.batch()
}
