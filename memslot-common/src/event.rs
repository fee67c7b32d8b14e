//! The records that travel through the ring buffer.
//!
//! Each begins with `kind`, so that the reader knows the rest. Times are `CLOCK_MONOTONIC`
//! nanoseconds. Kernel addresses (`kvm`, `device`, `iotlb`) identify an object and are never followed
//! by the user side, which gives every object a small number of its own.

/// What a record is; the first word of each.
pub mod kind {
    /// [`super::Fault`]
    pub const FAULT: u32 = 1;
    /// [`super::PleExit`]
    pub const PLE_EXIT: u32 = 2;
    /// [`super::Translation`]
    pub const TRANSLATION: u32 = 3;
    /// [`super::Vm`]: a VM was created.
    pub const VM_CREATED: u32 = 4;
    /// [`super::Vm`]: a VM that is older than the recording was seen; ask for its layout.
    pub const VM_SEEN: u32 = 5;
    /// [`super::Vm`]: a VM is being destroyed.
    pub const VM_GONE: u32 = 6;
    /// [`super::SlotChange`]
    pub const SLOT_CHANGE: u32 = 7;
    /// [`super::Table`]: a vhost device used a table of regions for the first time.
    pub const TABLE_SEEN: u32 = 8;
    /// [`super::RegionChange`]
    pub const REGION_CHANGE: u32 = 9;
}

/// `visited` and `touched` of a search that could not be followed to its end.
pub const UNKNOWN_LENGTH: u16 = u16::MAX;

/// Where a fault's slot search stood, from the kernel's own rules.
pub mod class {
    /// A slot covers the guest frame.
    pub const RAM: u8 = 0;
    /// The kernel searches, and no slot covers the guest frame: MMIO or a gap.
    pub const NO_SLOT: u8 = 1;
    /// A reserved-bit fault on a cached MMIO entry: `kvm_mmu_page_fault` emulates without a search.
    pub const MMIO_CACHED: u8 = 2;
    /// A shadow or nested paging fault: the address is no guest physical address of this VM.
    pub const SHADOW: u8 = 3;
}

/// How a slot came to be in a [`SlotChange`]; the first is ours, the others are `enum kvm_mr_change`.
pub mod change {
    /// One slot of a snapshot, in pre-order of the tree.
    pub const SNAPSHOT: u32 = 0;
    /// `KVM_MR_CREATE`
    pub const CREATE: u32 = 1;
    /// `KVM_MR_DELETE`
    pub const DELETE: u32 = 2;
    /// `KVM_MR_MOVE`
    pub const MOVE: u32 = 3;
    /// `KVM_MR_FLAGS_ONLY`
    pub const FLAGS_ONLY: u32 = 4;
    /// A region was added (`vhost_iotlb_add_range_ctx`).
    pub const ADD: u32 = 5;
    /// Every region that overlaps `start..=last` was removed (`vhost_iotlb_del_range`).
    pub const REMOVE_RANGE: u32 = 6;
    /// The whole table is gone (`vhost_iotlb_free`).
    pub const FREE: u32 = 7;
}

record! {
    /// One call of `kvm_mmu_page_fault`.
    pub struct Fault {
        /// [`kind::FAULT`]
        pub kind: u32,
        /// CPU at entry.
        pub cpu: u32,
        /// Time of entry, ns.
        pub time: u64,
        /// Return minus entry, ns of wall time.
        pub latency: u64,
        /// Of which the task was on a CPU, ns; `u64::MAX` when that was not looked at.
        pub on_cpu: u64,
        /// Address of the `struct kvm`.
        pub kvm: u64,
        /// Faulting guest physical address (a guest virtual one where `class` is `SHADOW`).
        pub gpa: u64,
        /// The error code that the function was called with.
        pub error_code: u64,
        /// Generation of the slot set in force at entry; bit 63: an update was in progress.
        pub generation: u64,
        /// `vcpu->vcpu_id`
        pub vcpu: u32,
        /// Return value: 1 resume the guest, 0 exit to user space, below 0 an errno.
        pub ret: i32,
        /// Id of the slot that covers the address, -1 none.
        pub slot: i32,
        /// Id of the vCPU's last-used slot at entry, -1 none or of another generation.
        pub last_used: i32,
        /// Nodes that the kernel's search stands at; 0 = the last-used slot answered, or no search.
        pub visited: u16,
        /// Distinct nodes that the search reads, the last-used slot included.
        pub touched: u16,
        /// One of [`class`].
        pub class: u8,
        /// Address space: 1 in SMM.
        pub as_id: u8,
        /// Number of the VM in counters and histograms.
        pub subject: u16,
    }
}

record! {
    /// One PLE exit: a call of `pause_interception` (AMD) or `handle_pause` (Intel).
    pub struct PleExit {
        /// [`kind::PLE_EXIT`]
        pub kind: u32,
        /// CPU at entry.
        pub cpu: u32,
        /// Time of entry, ns.
        pub time: u64,
        /// Return minus entry, ns of wall time.
        pub latency: u64,
        /// Of which the task was on a CPU, ns; `u64::MAX` when that was not looked at.
        pub on_cpu: u64,
        /// Of which inside `kvm_vcpu_on_spin`, ns; `u64::MAX` when that was not seen.
        pub on_spin: u64,
        /// Address of the `struct kvm`.
        pub kvm: u64,
        /// `vcpu->vcpu_id`
        pub vcpu: u32,
        /// PLE window at entry: PAUSEs (AMD) or TSC cycles (Intel).
        pub window_before: u32,
        /// PLE window once the handler has grown it: where it calls `kvm_vcpu_on_spin`, or at return where
        /// that was not seen.
        pub window_after: u32,
        /// Calls of `yield_to` inside the exit.
        pub yields: u16,
        /// Of them: > 0, the target was boosted.
        pub boosted: u16,
        /// Of them: 0, the scheduler declined.
        pub declined: u16,
        /// Of them: -ESRCH, both run queues held one task.
        pub undercommit: u16,
        /// Number of the VM in counters and histograms.
        pub subject: u32,
    }
}

record! {
    /// One call of vhost's `translate_desc`.
    pub struct Translation {
        /// [`kind::TRANSLATION`]
        pub kind: u32,
        /// CPU at entry.
        pub cpu: u32,
        /// Time of entry, ns.
        pub time: u64,
        /// Return minus entry, ns of wall time.
        pub latency: u64,
        /// Of which the task was on a CPU, ns; `u64::MAX` when that was not looked at.
        pub on_cpu: u64,
        /// Address of the `struct vhost_dev`.
        pub device: u64,
        /// Address of the `struct vhost_iotlb` that was searched.
        pub iotlb: u64,
        /// Address to translate: guest physical, or I/O virtual where `is_iotlb` is 1.
        pub addr: u64,
        /// Length to translate, bytes.
        pub len: u32,
        /// Thread of the worker.
        pub worker: u32,
        /// Segments written, or a negative errno.
        pub ret: i32,
        /// Regions in the table (`nmaps`).
        pub regions: u32,
        /// Nodes that the tree searches stand at, summed over the call's segments.
        pub visited: u16,
        /// Distinct nodes read by each search, summed over the call's segments.
        pub touched: u16,
        /// Index of the queue in `vhost_dev.vqs`; `u16::MAX` unknown.
        pub queue: u16,
        /// `VHOST_ACCESS_*`: 1 read, 2 write, 3 both.
        pub access: u8,
        /// 1 = the device IOTLB was searched, 0 = the memory table.
        pub is_iotlb: u8,
        /// Number of the device in counters and histograms.
        pub subject: u32,
        /// Always 0.
        pub reserved: u32,
    }
}

record! {
    /// A VM was created, met, or is going.
    pub struct Vm {
        /// One of the `VM_` kinds.
        pub kind: u32,
        /// Process that owns the VM (`kvm->userspace_pid`).
        pub pid: u32,
        /// Time, ns.
        pub time: u64,
        /// Address of the `struct kvm`.
        pub kvm: u64,
        /// Its number in counters and histograms.
        pub subject: u32,
        /// Always 0.
        pub reserved: u32,
    }
}

record! {
    /// A memory slot appeared, changed or went, or is part of a snapshot.
    pub struct SlotChange {
        /// [`kind::SLOT_CHANGE`]
        pub kind: u32,
        /// One of [`change`].
        pub change: u32,
        /// Time, ns.
        pub time: u64,
        /// Address of the `struct kvm`.
        pub kvm: u64,
        /// Generation of the slot set once the change was in force.
        pub generation: u64,
        /// First guest frame.
        pub base_gfn: u64,
        /// Length in pages.
        pub npages: u64,
        /// Address in the owner's address space.
        pub hva: u64,
        /// Before a `MOVE` or `DELETE`: the first guest frame that it had.
        pub old_base_gfn: u64,
        /// Slot id; internal slots of KVM have ids past the user's.
        pub id: i32,
        /// `KVM_MEM_*`
        pub flags: u32,
        /// Place in the pre-order of a snapshot, from 0.
        pub order: u32,
        /// Address space: 1 is SMM's.
        pub as_id: u16,
        /// Colour of the tree node in a snapshot: 0 red, 1 black.
        pub black: u16,
    }
}

record! {
    /// A vhost device searched a table that was not seen before.
    pub struct Table {
        /// [`kind::TABLE_SEEN`]
        pub kind: u32,
        /// Thread of the worker.
        pub worker: u32,
        /// Time, ns.
        pub time: u64,
        /// Address of the `struct vhost_dev`.
        pub device: u64,
        /// Address of the `struct vhost_iotlb`.
        pub iotlb: u64,
        /// Name of the worker, NUL-padded: `vhost-<owner's pid>`.
        pub name0: u64,
        /// Second half of the name.
        pub name1: u64,
        /// Regions in it.
        pub regions: u32,
        /// 1 = it is older than the recording: ask for its regions.
        pub older: u32,
        /// Number of the device in counters and histograms.
        pub subject: u32,
        /// Always 0.
        pub reserved: u32,
    }
}

record! {
    /// A region of a vhost table appeared or went, or is part of a snapshot.
    pub struct RegionChange {
        /// [`kind::REGION_CHANGE`]
        pub kind: u32,
        /// One of [`change`].
        pub change: u32,
        /// Time, ns.
        pub time: u64,
        /// Address of the `struct vhost_iotlb`.
        pub iotlb: u64,
        /// First address.
        pub start: u64,
        /// Last address, inclusive.
        pub last: u64,
        /// Address in the owner's address space that `start` stands for.
        pub hva: u64,
        /// Place in the pre-order of a snapshot, from 0.
        pub order: u32,
        /// `VHOST_ACCESS_*`
        pub perm: u8,
        /// Colour of the tree node in a snapshot: 0 red, 1 black.
        pub black: u8,
        /// Always 0.
        pub reserved: u16,
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, kind};

    #[test]
    fn a_record_survives_the_way_through_bytes_and_no_other_length_is_taken() {
        let fault =
            Fault { kind: kind::FAULT, gpa: 0x1234_5678_9abc, ret: -14, visited: 7, ..Fault::default() };
        let bytes = fault.to_bytes();
        assert_eq!(Fault::from_bytes(&bytes), Some(fault));
        for length in 0..bytes.len() {
            assert_eq!(Fault::from_bytes(&bytes[..length]), None);
        }
    }
}
