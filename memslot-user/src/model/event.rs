//! What the probes saw, with the kernel's addresses replaced by small numbers.

use super::Gpa;
use serde::{Deserialize, Serialize};

/// A VM of a recording, numbered from 0 in order of appearance. A `struct kvm` that is freed and
/// allocated again at the same address is another VM.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    schemars::JsonSchema,
    Deserialize,
)]
#[serde(transparent)]
pub struct VmId(pub u32);

/// A vhost device of a recording, numbered likewise.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    schemars::JsonSchema,
    Deserialize,
)]
#[serde(transparent)]
pub struct DeviceId(pub u32);

/// A vhost table of regions (`struct vhost_iotlb`) of a recording, numbered likewise. A device gets
/// another table whenever its owner sets the memory table.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    schemars::JsonSchema,
    Deserialize,
)]
#[serde(transparent)]
pub struct TableId(pub u32);

/// The three things that are measured.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    schemars::JsonSchema,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Probe {
    /// `kvm_mmu_page_fault`
    PageFault,
    /// `pause_interception` (AMD) or `handle_pause` (Intel)
    Ple,
    /// vhost's `translate_desc`
    Translate,
}

impl Probe {
    /// All of them, in the order of every table.
    pub const ALL: [Self; 3] = [Self::PageFault, Self::Ple, Self::Translate];

    /// The name in JSON, file names and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PageFault => "page_fault",
            Self::Ple => "ple",
            Self::Translate => "translate",
        }
    }
}

/// Where a fault's slot search stood, by the kernel's own rules.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    schemars::JsonSchema,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Class {
    /// A slot covers the guest frame.
    Ram,
    /// The kernel searched, and no slot covers it: first touch of MMIO, or a gap.
    NoSlot,
    /// A cached MMIO entry: the kernel emulates without a search.
    MmioCached,
    /// Shadow or nested paging: the address is no guest physical address of this VM.
    Shadow,
}

impl Class {
    /// All of them, in the order of their codes in the records.
    pub const ALL: [Self; 4] = [Self::Ram, Self::NoSlot, Self::MmioCached, Self::Shadow];

    /// The code in the records.
    #[must_use]
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The name in JSON, tables and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ram => "ram",
            Self::NoSlot => "no_slot",
            Self::MmioCached => "mmio_cached",
            Self::Shadow => "shadow",
        }
    }

    /// Does the kernel search the slots for such a fault?
    #[must_use]
    pub fn searches(self) -> bool {
        matches!(self, Self::Ram | Self::NoSlot)
    }
}

/// What one search cost in steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SearchLength {
    /// Nodes (or array elements) that the search stands at; 0 = the last-used slot answered.
    pub visited: u32,
    /// Distinct nodes whose memory the search reads: the visited ones, the last-used slot that was
    /// asked first, and in the interval tree the leftmost node and children that were looked at and
    /// rejected.
    pub touched: u32,
}

/// One call of `kvm_mmu_page_fault`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Time of entry, `CLOCK_MONOTONIC` ns.
    pub time: u64,
    /// Wall time inside, ns.
    pub latency: u64,
    /// Of which on a CPU, ns, where that is known.
    pub on_cpu: Option<u64>,
    /// CPU at entry.
    pub cpu: u32,
    /// The VM.
    pub vm: VmId,
    /// `vcpu_id`
    pub vcpu: u32,
    /// Faulting guest physical address.
    pub gpa: Gpa,
    /// x86 page-fault error code with KVM's own bits.
    pub error_code: u64,
    /// Where the search stood.
    pub class: Class,
    /// Address space: 1 in SMM.
    pub as_id: u8,
    /// Id of the covering slot.
    pub slot: Option<i32>,
    /// Id of the vCPU's last-used slot at entry, if of the current generation.
    pub last_used: Option<i32>,
    /// 1 resume the guest, 0 exit to user space, < 0 errno.
    pub ret: i32,
    /// Search length as the kernel searches; `None` where the walk could not be followed.
    pub length: Option<SearchLength>,
    /// Generation of the slot set at entry, without [`Fault::UPDATE_IN_PROGRESS`].
    pub generation: u64,
    /// An update was in progress at entry: the layout is that of before or after.
    pub ambiguous: bool,
}

impl Fault {
    /// `KVM_MEMSLOT_GEN_UPDATE_IN_PROGRESS`
    pub const UPDATE_IN_PROGRESS: u64 = 1 << 63;
}

/// One PLE exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PleExit {
    /// Time of entry, `CLOCK_MONOTONIC` ns.
    pub time: u64,
    /// Wall time inside the handler, ns.
    pub latency: u64,
    /// Of which on a CPU, ns, where that is known.
    pub on_cpu: Option<u64>,
    /// Of which inside `kvm_vcpu_on_spin`, ns, if that was seen.
    pub on_spin: Option<u64>,
    /// CPU at entry.
    pub cpu: u32,
    /// The VM.
    pub vm: VmId,
    /// `vcpu_id`
    pub vcpu: u32,
    /// PLE window at entry and once the handler has grown it: PAUSEs (AMD) or TSC cycles (Intel).
    pub window: (u32, u32),
    /// Calls of `yield_to`.
    pub yields: u32,
    /// Of them boosted another vCPU.
    pub boosted: u32,
    /// Of them declined by the scheduler.
    pub declined: u32,
    /// Of them refused because both run queues held one task.
    pub undercommit: u32,
}

/// One call of `translate_desc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Time of entry, `CLOCK_MONOTONIC` ns.
    pub time: u64,
    /// Wall time inside, ns.
    pub latency: u64,
    /// Of which on a CPU, ns, where that is known.
    pub on_cpu: Option<u64>,
    /// CPU at entry.
    pub cpu: u32,
    /// The vhost device.
    pub device: DeviceId,
    /// The table that was searched.
    pub table: TableId,
    /// Thread of the worker.
    pub worker: u32,
    /// Index of the queue within the device, if known.
    pub queue: Option<u16>,
    /// Address to translate.
    pub addr: u64,
    /// Bytes to translate.
    pub len: u32,
    /// 1 read, 2 write, 3 both.
    pub access: u8,
    /// Segments written, or a negative errno.
    pub ret: i32,
    /// Regions in the table.
    pub regions: u32,
    /// Sum over the call's searches; `None` where the walk could not be followed.
    pub length: Option<SearchLength>,
    /// The device IOTLB was searched, not the memory table.
    pub is_iotlb: bool,
}
