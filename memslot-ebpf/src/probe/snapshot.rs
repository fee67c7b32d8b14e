//! The layout of a VM or table that is older than the recording.
//!
//! Never attached: the user side runs these programs itself (`BPF_PROG_TEST_RUN`), a piece at a time,
//! so that no vCPU and no worker waits for it. A tree's pre-order fixes its shape.

use super::slots;
use crate::{
    emit::emit,
    kernel::{RbNode, RegionNode, SlotNode, Slots, Unreadable, read, setting},
    task::now,
};
use aya_ebpf::{
    macros::{map, raw_tracepoint},
    maps::Array,
    programs::RawTracePointContext,
};
use memslot_common::{
    account::probe,
    event::{RegionChange, SlotChange, change, kind},
    settings::snapshot,
};

/// Moves along the tree in one run of the program.
const MOVES: u32 = 256;

/// Where the walk stands between two runs, and how it ended.
#[map]
static CURSOR: Array<u64> = Array::with_max_entries(snapshot::CELLS, 0);

#[inline(always)]
fn cell(index: u32) -> u64 {
    CURSOR.get(index).copied().unwrap_or(0)
}

#[inline(always)]
fn set_cell(index: u32, value: u64) {
    if let Some(place) = CURSOR.get_ptr_mut(index) {
        // SAFETY: a live value of the map; one run at a time uses it.
        unsafe { *place = value }
    }
}

/// A pre-order walk by parent links: it needs no stack.
struct Cursor {
    node: u64,
    /// The child that was left on the way up; 0 = `node` is new.
    from: u64,
    order: u32,
}

impl Cursor {
    #[inline(always)]
    fn load() -> Self {
        Self { node: cell(snapshot::NODE), from: cell(snapshot::FROM), order: cell(snapshot::ORDER) as u32 }
    }

    #[inline(always)]
    fn save(&self) {
        set_cell(snapshot::NODE, self.node);
        set_cell(snapshot::FROM, self.from);
        set_cell(snapshot::ORDER, u64::from(self.order));
    }

    /// One move: down to a child where the node is new, else on to the right or up.
    #[inline(always)]
    fn step(&mut self, links: &RbNode) {
        let fresh = self.from == 0;
        let next = if fresh && links.left != 0 {
            links.left
        } else if links.right != 0 && self.from != links.right {
            links.right
        } else {
            self.from = self.node;
            self.node = links.parent();
            return;
        };
        self.from = 0;
        self.node = next;
    }
}

#[inline(always)]
fn walk_slots(kvm: u64, as_id: u64) -> Result<bool, Unreadable> {
    let set = Slots::of(kvm, as_id)?;
    let mut cursor = Cursor::load();
    if cell(snapshot::BEGUN) == 0 {
        set_cell(snapshot::BEGUN, 1);
        set_cell(snapshot::GENERATION, set.generation);
        cursor = Cursor { node: set.root, from: 0, order: 0 };
    } else if cell(snapshot::GENERATION) != set.generation {
        return Err(Unreadable);
    }
    let mut moves = 0;
    while moves < MOVES {
        moves += 1;
        if cursor.node == 0 {
            cursor.save();
            return Ok(true);
        }
        let node: SlotNode = read(set.node_array(cursor.node))?;
        let links = set.links(&node);
        if cursor.from == 0 {
            let mut record = SlotChange {
                kind: kind::SLOT_CHANGE,
                change: change::SNAPSHOT,
                time: now(),
                kvm,
                generation: set.generation,
                order: cursor.order,
                black: u16::from(links.is_black()),
                ..SlotChange::default()
            };
            slots::fill(set.slot(cursor.node), &mut record)?;
            emit(probe::LAYOUT, &record);
            cursor.order += 1;
        }
        cursor.step(&links);
    }
    cursor.save();
    Ok(false)
}

#[inline(always)]
fn walk_regions(iotlb: u64) -> Result<bool, Unreadable> {
    let nmaps: u32 = read(iotlb + u64::from(setting!(iotlb_nmaps)))?;
    let mut cursor = Cursor::load();
    if cell(snapshot::BEGUN) == 0 {
        set_cell(snapshot::BEGUN, 1);
        set_cell(snapshot::GENERATION, u64::from(nmaps));
        cursor = Cursor { node: read(iotlb + u64::from(setting!(iotlb_root)))?, from: 0, order: 0 };
    } else if cell(snapshot::GENERATION) != u64::from(nmaps) {
        return Err(Unreadable);
    }
    let mut moves = 0;
    while moves < MOVES {
        moves += 1;
        if cursor.node == 0 {
            cursor.save();
            return Ok(true);
        }
        let node: RegionNode = read(cursor.node)?;
        if cursor.from == 0 {
            let record = RegionChange {
                kind: kind::REGION_CHANGE,
                change: change::SNAPSHOT,
                time: now(),
                iotlb,
                start: node.start,
                last: node.last,
                hva: node.addr,
                order: cursor.order,
                perm: node.perm as u8,
                black: u8::from(node.rb.is_black()),
                reserved: 0,
            };
            emit(probe::LAYOUT, &record);
            cursor.order += 1;
        }
        cursor.step(&node.rb);
    }
    cursor.save();
    Ok(false)
}

#[inline(always)]
fn finish(result: Result<bool, Unreadable>) -> i32 {
    set_cell(
        snapshot::STATUS,
        match result {
            Ok(true) => snapshot::DONE,
            Ok(false) => snapshot::MORE,
            Err(Unreadable) => snapshot::CHANGED,
        },
    );
    0
}

/// Arguments: address of the `struct kvm`, address space.
#[raw_tracepoint]
pub fn snapshot_slots(context: RawTracePointContext) -> i32 {
    finish(walk_slots(context.arg(0), context.arg::<u64>(1) & 1))
}

/// Argument: address of the `struct vhost_iotlb`.
#[raw_tracepoint]
pub fn snapshot_regions(context: RawTracePointContext) -> i32 {
    finish(walk_regions(context.arg(0)))
}
