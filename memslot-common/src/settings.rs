//! What the user side tells the probes before they are loaded.

record! {
    /// Byte offsets of the running kernel's structures, from its BTF, and switches.
    ///
    /// The probes read it as a constant; `u32::MAX` marks a member that this kernel does not have.
    pub struct Settings {
        /// Calls of a shorter wall time are filtered out, ns.
        pub filter_min_latency: u64,
        /// One call in so many becomes an event: 1 = every one, 0 = none.
        pub sample_every: u32,
        /// Elements of the histogram map, a power of two, less 1.
        pub histogram_mask: u32,
        /// 1 = `sched_switch` is watched: time on a CPU is known.
        pub on_cpu: u32,
        /// 1 = searches are followed.
        pub follow: u32,
        /// Process whose VMs and devices are wanted; 0 = all.
        pub filter_pid: u32,
        /// `vcpu_id` that is wanted; [`ABSENT`] = all.
        pub filter_vcpu: u32,
        /// Id of the slot that is wanted; [`ABSENT`] = all.
        pub filter_slot: u32,
        /// Index of the queue that is wanted; [`ABSENT`] = all.
        pub filter_queue: u32,
        /// Kinds of page faults (`histogram::kind`) that are wanted, a bit each; 0 = all.
        pub filter_kinds: u32,
        /// BTF id of a structure of words, `struct pt_regs`, by which fentry programs see kernel memory through
        /// [`kfunc::RDONLY_CAST`]; 0 = this kernel has no such function.
        pub words_type: u32,
        /// `kvm_vcpu.kvm`
        pub vcpu_kvm: u32,
        /// `kvm_vcpu.vcpu_id`
        pub vcpu_id: u32,
        /// `kvm_vcpu.last_used_slot`
        pub vcpu_last_used_slot: u32,
        /// `kvm_vcpu.last_used_slot_gen`
        pub vcpu_last_used_slot_gen: u32,
        /// `kvm_vcpu.arch.mmu`
        pub vcpu_mmu: u32,
        /// `kvm_mmu.root_role`, 32 bits
        pub mmu_root_role: u32,
        /// Bit of `direct` within the role; 0 when the kernel does not say.
        pub role_direct_mask: u32,
        /// Bits of `smm` within the role, which `__kvm_memslots` is chosen by; 0 likewise.
        pub role_smm_mask: u32,
        /// `kvm.memslots`
        pub kvm_memslots: u32,
        /// `kvm.userspace_pid`
        pub kvm_userspace_pid: u32,
        /// `kvm_memslots.generation`
        pub memslots_generation: u32,
        /// `kvm_memslots.gfn_tree`
        pub memslots_gfn_tree: u32,
        /// `kvm_memslots.node_idx`
        pub memslots_node_idx: u32,
        /// `kvm_memory_slot.gfn_node`; `base_gfn` and `npages` follow the two nodes
        pub slot_gfn_node: u32,
        /// `kvm_memory_slot.id`
        pub slot_id: u32,
        /// `kvm_memory_slot.as_id`
        pub slot_as_id: u32,
        /// `kvm_memory_slot.flags`
        pub slot_flags: u32,
        /// `kvm_memory_slot.userspace_addr`
        pub slot_hva: u32,
        /// The pointer to the VMCB in `vcpu_svm` (AMD); absent on Intel
        pub svm_vmcb: u32,
        /// `vmcb.control.pause_filter_count` (AMD, 16 bits)
        pub vmcb_pause_filter_count: u32,
        /// `vcpu_vmx.ple_window` (Intel, 32 bits)
        pub vmx_ple_window: u32,
        /// `vhost_virtqueue.dev`
        pub vq_dev: u32,
        /// `vhost_dev.vqs`
        pub dev_vqs: u32,
        /// `vhost_dev.nvqs`
        pub dev_nvqs: u32,
        /// `vhost_dev.umem`
        pub dev_umem: u32,
        /// `vhost_dev.iotlb`
        pub dev_iotlb: u32,
        /// `vhost_iotlb.root`
        pub iotlb_root: u32,
        /// `vhost_iotlb.nmaps`
        pub iotlb_nmaps: u32,
        /// `kvm_memory_slot.gfn_node` could be followed: the members lie as the probes expect.
        pub walk_slots: u32,
        /// The same of `vhost_iotlb_map`.
        pub walk_regions: u32,
    }
}

/// Kernel functions that programs call. Which number a function has is known only where it runs, so the programs call
/// a helper that no kernel has, and the user side replaces the call before it loads them.
pub mod kfunc {
    /// Stands for `bpf_rdonly_cast(object, type)`, Linux 6.2.
    pub const RDONLY_CAST: usize = 0x6d65_6d01;
}

/// A member that this kernel does not have.
pub const ABSENT: u32 = u32::MAX;

record! {
    /// Where the walk of a snapshot program stands between two runs: the one element of its map.
    ///
    /// The user side clears it, then runs the program until `status` is no longer [`snapshot::MORE`].
    pub struct Cursor {
        /// Address of the node that the walk stands at; 0 = over.
        pub node: u64,
        /// Child that was left on the way up; 0 = `node` is new.
        pub from: u64,
        /// Records emitted so far.
        pub order: u64,
        /// 1 once the walk has begun.
        pub begun: u64,
        /// Generation of the slots, or number of the regions, when it began.
        pub generation: u64,
        /// One of the states in [`snapshot`].
        pub status: u64,
    }
}

/// States of a walk.
pub mod snapshot {
    /// Run the program again.
    pub const MORE: u64 = 1;
    /// The tree has been emitted whole.
    pub const DONE: u64 = 2;
    /// The tree changed or went: what was emitted is worth nothing.
    pub const CHANGED: u64 = 3;
}
