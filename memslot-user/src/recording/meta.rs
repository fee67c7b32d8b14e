//! `meta.json`: where a recording comes from and whether it is whole.

use super::Account;
use crate::model::{DeviceId, Probe, TableId, VmId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the recording's layout; a reader refuses a newer one.
pub const SCHEMA: u32 = 2;

/// How a function was probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachKind {
    /// fentry and fexit, through the kernel's or the module's BTF.
    Fentry,
    /// kprobe and kretprobe.
    Kprobe,
}

impl AttachKind {
    /// The name in JSON, tables and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fentry => "fentry",
            Self::Kprobe => "kprobe",
        }
    }
}

/// A function that was probed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Attached {
    /// The kernel function's symbol.
    pub function: String,
    /// How.
    pub kind: AttachKind,
}

/// What is known of one probe of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct ProbeMeta {
    /// The probed functions; empty when the probe could not be attached.
    pub attached: Vec<Attached>,
    /// Why it is missing or degraded, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Rows of its table.
    #[serde(default)]
    pub events: u64,
    /// Its counters at the end.
    pub account: Account,
    /// Calls that its histograms hold; `None` in a recording of version 1, which has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<u64>,
}

impl ProbeMeta {
    /// By how much the account does not close, the histograms included: 0, unless a counter is wrong.
    #[must_use]
    pub fn residual(&self) -> u64 {
        let histograms = self.counted.map_or(0, |counted| counted.abs_diff(self.account.in_histograms()));
        self.account.residual() + histograms
    }

    /// Does every figure rest on every call, but for so many that may be lost?
    #[must_use]
    pub fn is_whole(&self, max_lost: u64) -> bool {
        self.account.lost() <= max_lost && self.residual() == 0
    }
}

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Host {
    /// `uname -n`
    pub name: String,
    /// `uname -r`
    pub kernel: String,
    /// `uname -v`
    pub kernel_version: String,
    /// Model name of the first CPU.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus: u32,
    /// Name of the hypervisor under which the machine itself runs, if any: times are then its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtualised: Option<String>,
    /// `vendor_id` of /proc/cpuinfo; says whether PLE windows are in PAUSEs (AMD) or cycles.
    pub cpu_vendor: String,
}

/// Two clocks read together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Clock {
    /// `CLOCK_MONOTONIC`, ns: the clock of every event.
    pub monotonic: u64,
    /// `CLOCK_REALTIME`, ns.
    pub realtime: u64,
}

/// A VM of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct VmMeta {
    /// Its number in the tables.
    pub vm: VmId,
    /// Process that owns it.
    pub pid: u32,
    /// Its name, from the owner's command line or `comm`.
    pub name: String,
    /// It existed when the recording began.
    pub older: bool,
    /// It was destroyed while recorded: when, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<u64>,
}

/// A vhost device of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct DeviceMeta {
    /// Its number in the tables.
    pub device: DeviceId,
    /// Name of its worker's thread.
    pub worker: String,
    /// Process that owns it, from the worker's name, if it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// A vhost table of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct TableMeta {
    /// Its number in the tables.
    pub table: TableId,
    /// The device that first searched it.
    pub device: DeviceId,
    /// It existed when the recording began.
    pub older: bool,
}

/// Version 1 had no modes.
fn every_call() -> String {
    "events".to_owned()
}

/// `meta.json`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Meta {
    /// [`SCHEMA`]
    pub schema: u32,
    /// Version of the tool, with the git revision.
    pub tool: String,
    /// A label that the user gave (`--label`), e.g. the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The machine.
    pub host: Host,
    /// Parameters of the KVM and vhost modules that bear on the figures, `module.name` to value.
    pub parameters: BTreeMap<String, String>,
    /// The command line.
    pub command: Vec<String>,
    /// Clocks at the start.
    pub start: Clock,
    /// Clocks at the end; all 0 when the recording was cut off.
    pub end: Clock,
    /// The recorder finished: accounts are final and the tables whole.
    pub complete: bool,
    /// Why it ended: `duration`, `signal`, `command`, `vm_gone`, …
    #[serde(default)]
    pub ended_by: String,
    /// Which calls became events: `events` all, `sample:N` one in N at random, `histogram` none.
    #[serde(default = "every_call")]
    pub mode: String,
    /// What the filters asked for, as on the command line; empty: everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<String>,
    /// Losses up to so many calls of a probe were said to be bearable (`--max-lost`).
    #[serde(default)]
    pub max_lost: u64,
    /// Only the VM of this process was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_pid: Option<u32>,
    /// Rare things that the probes or the recorder had to say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// By probe.
    pub probes: BTreeMap<Probe, ProbeMeta>,
    /// Counters of the layout records.
    pub layout_account: Account,
    /// VMs seen.
    pub vms: Vec<VmMeta>,
    /// vhost devices seen.
    pub devices: Vec<DeviceMeta>,
    /// vhost tables seen.
    pub tables: Vec<TableMeta>,
}
