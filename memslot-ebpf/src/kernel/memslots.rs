//! `kvm_vcpu_gfn_to_memslot` and `search_memslots` (5.17 and later) as the kernel makes them, on the
//! live slots.

use super::{Length, RbNode, Unreadable, Walk, read, setting};

/// Longer than any red-black tree of 32,767 slots is deep (2 log2 n = 30).
const MAX_DEPTH: u16 = 64;

/// The members of `struct kvm_memory_slot` from `gfn_node` on, which lie together in every kernel
/// that has the tree (the user side checks that): one read gets a node whole.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SlotNode {
    pub gfn_node: [RbNode; 2],
    pub base_gfn: u64,
    pub npages: u64,
}

/// The slot set in force of one address space.
#[derive(Clone, Copy)]
pub struct Slots {
    /// Its generation.
    pub generation: u64,
    /// Address of the tree's root node.
    pub root: u64,
    /// Which of a slot's two tree nodes belongs to this set.
    pub node_idx: u32,
}

impl Slots {
    /// `__kvm_memslots(kvm, as_id)`
    #[inline(always)]
    pub fn of(kvm: u64, as_id: u64) -> Result<Self, Unreadable> {
        let address: u64 = read(kvm + u64::from(setting!(kvm_memslots)) + as_id * 8)?;
        if address == 0 {
            return Err(Unreadable);
        }
        Ok(Self {
            generation: read(address + u64::from(setting!(memslots_generation)))?,
            root: read(address + u64::from(setting!(memslots_gfn_tree)))?,
            node_idx: read::<u32>(address + u64::from(setting!(memslots_node_idx)))? & 1,
        })
    }

    /// Address of the structure's `gfn_node` array, from the address of this set's node.
    #[inline(always)]
    pub fn node_array(&self, node: u64) -> u64 {
        node - u64::from(self.node_idx) * size_of::<RbNode>() as u64
    }

    /// The links of this set's node.
    #[inline(always)]
    pub fn links(&self, node: &SlotNode) -> RbNode {
        if self.node_idx == 0 { node.gfn_node[0] } else { node.gfn_node[1] }
    }

    /// Address of the slot, from the address of this set's node.
    #[inline(always)]
    pub fn slot(&self, node: u64) -> u64 {
        self.node_array(node) - u64::from(setting!(slot_gfn_node))
    }
}

/// What the kernel will find.
pub struct Search {
    pub length: Length,
    /// Id of the covering slot, -1 none.
    pub slot: i32,
    /// Id of the last-used slot that was asked first, -1 none.
    pub last_used: i32,
    pub walk: Walk,
}

#[inline(always)]
fn covers(node: &SlotNode, gfn: u64) -> bool {
    gfn >= node.base_gfn && gfn - node.base_gfn < node.npages
}

#[inline(always)]
fn id_of(slot: u64) -> i32 {
    read::<i16>(slot + u64::from(setting!(slot_id))).map_or(-1, i32::from)
}

/// Follows `kvm_vcpu_gfn_to_memslot(vcpu, gfn)`: the vCPU's last-used slot first, if it is of this
/// generation, then the tree, which is left at the first slot that covers the frame.
#[inline(always)]
pub fn search(vcpu: u64, slots: &Slots, gfn: u64) -> Search {
    let mut result = Search { length: Length::UNKNOWN, slot: -1, last_used: -1, walk: Walk::Failed };
    let Ok(generation) = read::<u64>(vcpu + u64::from(setting!(vcpu_last_used_slot_gen))) else {
        return result;
    };
    let Ok(last_used) = read::<u64>(vcpu + u64::from(setting!(vcpu_last_used_slot))) else { return result };
    let asked = generation == slots.generation && last_used != 0;
    if asked {
        let Ok(node) = read::<SlotNode>(last_used + u64::from(setting!(slot_gfn_node))) else {
            return result;
        };
        result.last_used = id_of(last_used);
        if covers(&node, gfn) {
            result.slot = result.last_used;
            result.length = Length { visited: 0, touched: 1 };
            result.walk = Walk::Done;
            return result;
        }
    }
    let mut address = slots.root;
    let mut visited = 0u16;
    // The last-used slot counts as touched once, even when the walk meets it again.
    let mut touched = u16::from(asked);
    while visited < MAX_DEPTH {
        if address == 0 {
            result.length = Length { visited, touched };
            result.walk = Walk::Done;
            return result;
        }
        let Ok(node) = read::<SlotNode>(slots.node_array(address)) else { return result };
        let slot = slots.slot(address);
        visited += 1;
        if !asked || slot != last_used {
            touched += 1;
        }
        if covers(&node, gfn) {
            result.slot = id_of(slot);
            result.length = Length { visited, touched };
            result.walk = Walk::Done;
            return result;
        }
        let links = slots.links(&node);
        address = if gfn >= node.base_gfn { links.right } else { links.left };
    }
    result.walk = Walk::Truncated;
    result
}
