//! What the user side tells the probes before they are loaded.

record! {
    /// Byte offsets of the running kernel's structures, from its BTF, and switches.
    ///
    /// The probes read it as a constant; `u32::MAX` marks a member that this kernel does not have.
    pub struct Settings {
        /// `kvm_vcpu.kvm`
        pub vcpu_kvm: u32,
        /// `kvm_vcpu.vcpu_id`
        pub vcpu_id: u32,
        /// `kvm_vcpu.last_used_slot`
        pub vcpu_last_used_slot: u32,
        /// `kvm_vcpu.last_used_slot_gen`
        pub vcpu_last_used_slot_gen: u32,
        /// `kvm_vcpu.arch.hflags`
        pub vcpu_hflags: u32,
        /// `kvm_vcpu.arch.mmu`
        pub vcpu_mmu: u32,
        /// `kvm_mmu.root_role`, the byte that holds `direct`
        pub mmu_direct: u32,
        /// Mask of `direct` within that byte; 0 when the kernel does not say.
        pub mmu_direct_mask: u32,
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

/// A member that this kernel does not have.
pub const ABSENT: u32 = u32::MAX;
