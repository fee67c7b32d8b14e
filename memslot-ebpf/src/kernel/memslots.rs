//! `kvm_vcpu_gfn_to_memslot` and `search_memslots` (5.17 and later) as the kernel makes them, on the
//! live slots.

use super::{Access, Length, Opaque, RbNode, Unreadable, Walk, read, seen, setting};
use core::mem::offset_of;

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

/// Where `gfn_tree` lies behind `generation` in current kernels: near enough to be read in one go.
const GFN_TREE: u32 = 32;

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
    pub fn of<A: Access>(kvm: u64, as_id: u32) -> Result<Self, Unreadable> {
        let address: u64 = A::member(kvm, setting!(kvm_memslots) + as_id * 8)?;
        if address == 0 {
            return Err(Unreadable);
        }
        if A::IS_CHEAP {
            return Ok(Self {
                generation: A::member(address, setting!(memslots_generation))?,
                root: A::member(address, setting!(memslots_gfn_tree))?,
                node_idx: A::member::<u32>(address, setting!(memslots_node_idx))? & 1,
            });
        }
        let (generation, root) = if setting!(memslots_gfn_tree) == setting!(memslots_generation) + GFN_TREE {
            let words = read::<[u64; 5]>(address + u64::from(setting!(memslots_generation)))?;
            (words[0], words[4])
        } else {
            A::two(address, setting!(memslots_generation), setting!(memslots_gfn_tree))?
        };
        Ok(Self {
            generation,
            root,
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

/// Bytes of a tree node.
const NODE: u64 = size_of::<RbNode>() as u64;

/// What a search asks of a node.
#[derive(Clone, Copy)]
struct Node {
    right: u64,
    left: u64,
    base_gfn: u64,
    npages: u64,
}

impl Node {
    /// Reads no more than is asked for: behind the first of a slot's two nodes lies the second.
    #[inline(always)]
    fn read<A: Access>(address: u64, node_idx: u32) -> Result<Self, Unreadable> {
        let links = address + offset_of!(RbNode, right) as u64;
        if A::sees() {
            let [right, left] = seen(links);
            let behind = if node_idx == 0 { 2 * NODE } else { NODE };
            let [base_gfn, npages] = seen(address + behind);
            return Ok(Self { right, left, base_gfn, npages });
        }
        if node_idx == 0 {
            let [right, left, _, _, _, base_gfn, npages] = read::<[u64; 7]>(links)?;
            return Ok(Self { right, left, base_gfn, npages });
        }
        let [right, left, base_gfn, npages] = read::<[u64; 4]>(links)?;
        Ok(Self { right, left, base_gfn, npages })
    }
}

/// What the kernel will find.
pub struct Search {
    pub length: Length,
    /// Address of the covering slot, 0 none.
    pub slot: u64,
    /// Address of the last-used slot that was asked first, 0 none.
    pub last_used: u64,
    pub walk: Walk,
}

#[inline(always)]
fn covers(base_gfn: u64, npages: u64, gfn: u64) -> bool {
    gfn >= base_gfn && gfn - base_gfn < npages
}

/// Id of a slot, -1 where there is none.
#[inline(always)]
pub fn id_of(slot: u64) -> i32 {
    if slot == 0 { -1 } else { read::<i16>(slot + u64::from(setting!(slot_id))).map_or(-1, i32::from) }
}

/// Follows `kvm_vcpu_gfn_to_memslot(vcpu, gfn)`: the vCPU's last-used slot first, if it is of this
/// generation, then the tree, which is left at the first slot that covers the frame.
#[inline(always)]
pub fn search<A: Access>(vcpu: u64, slots: &Slots, gfn: u64, cell: &mut Opaque<u64>) -> Search {
    let mut result = Search { length: Length::UNKNOWN, slot: 0, last_used: 0, walk: Walk::Failed };
    let (slot, generation) = (setting!(vcpu_last_used_slot), setting!(vcpu_last_used_slot_gen));
    let Ok((mut last_used, generation)) = A::two(vcpu, slot, generation) else { return result };
    let asked = generation == slots.generation && last_used != 0;
    if asked {
        let range = setting!(slot_gfn_node) + offset_of!(SlotNode, base_gfn) as u32;
        let Ok((base_gfn, npages)) = A::two(last_used, range, range + 8) else { return result };
        last_used = cell.forget(last_used);
        result.last_used = last_used;
        if covers(base_gfn, npages, gfn) {
            result.slot = last_used;
            result.length = Length { visited: 0, touched: 1 };
            result.walk = Walk::Done;
            return result;
        }
    }
    let mut address = cell.forget(slots.root);
    let mut visited = 0u16;
    // The last-used slot counts as touched once, even when the walk meets it again.
    let mut touched = u16::from(asked);
    while visited < MAX_DEPTH {
        if address == 0 {
            result.length = Length { visited, touched };
            result.walk = Walk::Done;
            return result;
        }
        let Ok(node) = Node::read::<A>(address, slots.node_idx) else { return result };
        let slot = slots.slot(address);
        visited += 1;
        if !asked || slot != last_used {
            touched += 1;
        }
        if covers(node.base_gfn, node.npages, gfn) {
            result.slot = slot;
            result.length = Length { visited, touched };
            result.walk = Walk::Done;
            return result;
        }
        address = if gfn >= node.base_gfn { node.right } else { node.left };
    }
    result.walk = Walk::Truncated;
    result
}
