//! Which kernel functions are probed, by which programs, for what.

use crate::model::Probe;

/// What a function is probed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// One of the three measured things.
    Measure(Probe),
    /// The slots of VMs.
    Slots,
    /// The regions of vhost devices.
    Regions,
}

impl Purpose {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Measure(probe) => probe.name(),
            Self::Slots => "slots",
            Self::Regions => "regions",
        }
    }
}

/// Programs of one attach kind: (fentry or fexit, kprobe or kretprobe).
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) tracing: &'static str,
    pub(super) kprobe: &'static str,
}

/// A kernel function and the programs for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// Names that the function has, by vendor or kernel; the first that exists is meant.
    pub(super) functions: &'static [&'static str],
    pub(super) purpose: Purpose,
    /// Modules that may have it, where it is not built in.
    pub(super) modules: &'static [&'static str],
    /// Parameters that the programs expect; a kernel whose function has others is not probed.
    pub(super) parameters: u32,
    /// Attached first, so that every entry seen has its return seen.
    pub(super) at_return: Option<Pair>,
    pub(super) at_entry: Option<Pair>,
    /// What is lost without it, said where it cannot be attached; `None`: the purpose itself.
    pub(super) without: Option<&'static str>,
}

const fn pair(tracing: &'static str, kprobe: &'static str) -> Option<Pair> {
    Some(Pair { tracing, kprobe })
}

/// In the order of attachment: layouts before the events that need them.
pub(super) const TARGETS: &[Target] = &[
    Target {
        functions: &["kvm_arch_init_vm"],
        purpose: Purpose::Slots,
        modules: &["kvm"],
        parameters: 2,
        at_return: None,
        at_entry: pair("vm_created_entry", "vm_created_kprobe"),
        without: Some("new VMs are taken for older ones"),
    },
    Target {
        functions: &["kvm_arch_destroy_vm"],
        purpose: Purpose::Slots,
        modules: &["kvm"],
        parameters: 1,
        at_return: None,
        at_entry: pair("vm_gone_entry", "vm_gone_kprobe"),
        without: Some("the end of a VM goes unseen"),
    },
    Target {
        functions: &["kvm_arch_commit_memory_region"],
        purpose: Purpose::Slots,
        modules: &["kvm"],
        parameters: 4,
        at_return: None,
        at_entry: pair("slot_change_entry", "slot_change_kprobe"),
        without: Some("changes of slots go unseen"),
    },
    Target {
        functions: &["vhost_iotlb_add_range_ctx"],
        purpose: Purpose::Regions,
        modules: &["vhost_iotlb"],
        parameters: 6,
        at_return: Some(Pair { tracing: "region_added_return", kprobe: "region_added_kprobe" }),
        at_entry: None,
        without: Some("new regions go unseen"),
    },
    Target {
        functions: &["vhost_iotlb_del_range"],
        purpose: Purpose::Regions,
        modules: &["vhost_iotlb"],
        parameters: 3,
        at_return: None,
        at_entry: pair("region_removed_entry", "region_removed_kprobe"),
        without: Some("removed regions go unseen"),
    },
    Target {
        functions: &["vhost_iotlb_free"],
        purpose: Purpose::Regions,
        modules: &["vhost_iotlb"],
        parameters: 1,
        at_return: None,
        at_entry: pair("table_freed_entry", "table_freed_kprobe"),
        without: Some("the end of a vhost table goes unseen"),
    },
    Target {
        functions: &["kvm_tdp_page_fault"],
        purpose: Purpose::Measure(Probe::PageFault),
        modules: &["kvm"],
        parameters: 2,
        at_return: None,
        at_entry: pair("tdp_fault_entry", "tdp_fault_kprobe"),
        without: Some("an MMIO fault that searches again after a change of slots is taken for a cached one"),
    },
    Target {
        functions: &["kvm_mmu_page_fault"],
        purpose: Purpose::Measure(Probe::PageFault),
        modules: &["kvm"],
        parameters: 5,
        at_return: pair("page_fault_return", "page_fault_kretprobe"),
        at_entry: pair("page_fault_entry", "page_fault_kprobe"),
        without: None,
    },
    Target {
        functions: &["yield_to"],
        purpose: Purpose::Measure(Probe::Ple),
        modules: &[],
        parameters: 2,
        at_return: pair("yield_return", "yield_kretprobe"),
        at_entry: pair("yield_entry", "yield_kprobe"),
        without: Some("yields and their outcome are not counted"),
    },
    Target {
        functions: &["kvm_vcpu_on_spin"],
        purpose: Purpose::Measure(Probe::Ple),
        modules: &["kvm"],
        parameters: 2,
        at_return: pair("on_spin_return", "on_spin_kretprobe"),
        at_entry: pair("on_spin_entry", "on_spin_kprobe"),
        without: Some("the time in kvm_vcpu_on_spin and its yields are not known"),
    },
    Target {
        functions: &["pause_interception", "handle_pause"],
        purpose: Purpose::Measure(Probe::Ple),
        modules: &["kvm_amd", "kvm_intel"],
        parameters: 1,
        at_return: pair("ple_return", "ple_kretprobe"),
        at_entry: pair("ple_entry", "ple_kprobe"),
        without: None,
    },
    Target {
        functions: &["translate_desc"],
        purpose: Purpose::Measure(Probe::Translate),
        modules: &["vhost"],
        parameters: 6,
        at_return: pair("translate_return", "translate_kretprobe"),
        at_entry: pair("translate_entry", "translate_kprobe"),
        without: None,
    },
];
