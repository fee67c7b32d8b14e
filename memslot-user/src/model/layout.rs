//! Memory slots and vhost regions, and how they change.

use super::{Gfn, TableId, VmId};
use serde::{Deserialize, Serialize};

/// A memory slot of a VM (`struct kvm_memory_slot`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Memslot {
    /// Slot id; slots of KVM's own have ids past the user's.
    pub id: i32,
    /// First guest frame.
    pub base_gfn: Gfn,
    /// Length in pages, never 0.
    pub npages: u64,
}

/// A region of a vhost table (`struct vhost_iotlb_map`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Region {
    /// First address.
    pub start: u64,
    /// Last address, inclusive.
    pub last: u64,
}

/// How a slot came, changed or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotChangeKind {
    /// Part of a snapshot of a VM that is older than the recording, in pre-order of the live tree,
    /// which fixes the tree's shape.
    Snapshot {
        /// Place in the pre-order, from 0.
        order: u32,
        /// Colour of the node.
        black: bool,
    },
    /// `KVM_MR_CREATE`
    Create,
    /// `KVM_MR_DELETE`
    Delete,
    /// `KVM_MR_MOVE`
    Move {
        /// Where it was.
        old_base_gfn: Gfn,
    },
    /// `KVM_MR_FLAGS_ONLY`
    Flags,
}

/// One change of a VM's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotChange {
    /// Time, `CLOCK_MONOTONIC` ns.
    pub time: u64,
    /// The VM.
    pub vm: VmId,
    /// Address space: 1 is SMM's.
    pub as_id: u16,
    /// Generation of the slot set once the change was in force; a snapshot's own generation.
    pub generation: u64,
    /// How.
    pub kind: SlotChangeKind,
    /// The slot after the change (before it, where it was deleted).
    pub slot: Memslot,
    /// `KVM_MEM_*`
    pub flags: u32,
    /// Address in the owner's address space.
    pub hva: u64,
}

/// How a region came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, schemars::JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionChangeKind {
    /// Part of a snapshot, in pre-order of the live tree.
    Snapshot {
        /// Place in the pre-order, from 0.
        order: u32,
        /// Colour of the node.
        black: bool,
    },
    /// `vhost_iotlb_add_range_ctx`
    Add,
    /// `vhost_iotlb_del_range`: every region that overlaps `start..=last`.
    RemoveRange,
    /// The whole table went.
    Free,
}

/// One change of a vhost table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionChange {
    /// Time, `CLOCK_MONOTONIC` ns.
    pub time: u64,
    /// The table.
    pub table: TableId,
    /// How.
    pub kind: RegionChangeKind,
    /// The region, or the range to remove.
    pub region: Region,
    /// Address in the owner's address space that `region.start` stands for.
    pub hva: u64,
    /// `VHOST_ACCESS_*`
    pub perm: u8,
}
