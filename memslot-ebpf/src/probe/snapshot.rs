//! The layout of a VM or table that is older than the recording.
//!
//! Never attached: the user side runs these programs itself (`BPF_PROG_TEST_RUN`), a piece at a time,
//! so that no vCPU and no worker waits for it. A tree's pre-order fixes its shape.

use super::slots;
use crate::{
    emit::emit,
    kernel::{Helper, Opaque, RbNode, RegionNode, SlotNode, Slots, Unreadable, read, setting},
    subject,
    task::now,
};
use aya_ebpf::{
    macros::{map, raw_tracepoint},
    maps::Array,
    programs::RawTracePointContext,
};
use memslot_common::{
    account::{OTHERS, probe},
    event::{RegionChange, SlotChange, change, kind},
    settings::{self, snapshot},
};

/// `KVM_MEMSLOT_GEN_UPDATE_IN_PROGRESS`
const UPDATE_IN_PROGRESS: u64 = 1 << 63;

/// Moves along the tree in one run of the program.
const MOVES: u32 = 64;

/// Where the walk stands between two runs, and how it ended.
#[map]
static CURSOR: Array<settings::Cursor> = Array::with_max_entries(1, 0);

/// The map's element, as [`settings::Cursor`]: a pre-order walk by parent links needs no stack.
#[repr(C)]
struct Cursor {
    node: Opaque<u64>,
    from: Opaque<u64>,
    order: Opaque<u64>,
    begun: Opaque<u64>,
    generation: Opaque<u64>,
    status: Opaque<u64>,
}

const _: () = assert!(size_of::<Cursor>() == settings::Cursor::SIZE);

impl Cursor {
    #[inline(always)]
    fn get() -> Option<&'static mut Self> {
        let element = CURSOR.get_ptr_mut(0)?;
        // SAFETY: a live element of the map, laid out alike; one run at a time uses it.
        unsafe { element.cast::<Self>().as_mut() }
    }

    /// Begins at `root`, or goes on where the last run stopped, if the tree is still the same.
    #[inline(always)]
    fn begin_or_go_on(&mut self, root: u64, generation: u64) -> Result<(), Unreadable> {
        if self.begun.get() == 0 {
            self.begun.set(1);
            self.generation.set(generation);
            self.node.set(root);
        } else if self.generation.get() != generation {
            return Err(Unreadable);
        }
        Ok(())
    }

    /// One move: down to a child where the node is new, else on to the right or up.
    #[inline(always)]
    fn step(&mut self, links: &RbNode) {
        let from = self.from.get();
        let next = if from == 0 && links.left != 0 {
            links.left
        } else if links.right != 0 && from != links.right {
            links.right
        } else {
            self.from.set(self.node.get());
            self.node.set(links.parent());
            return;
        };
        self.from.set(0);
        self.node.set(next);
    }

    /// Takes the next place in the order.
    #[inline(always)]
    fn next_order(&mut self) -> u32 {
        let order = self.order.get();
        self.order.set(order + 1);
        order as u32
    }
}

#[inline(always)]
fn walk_slots(cursor: &mut Cursor, kvm: u64, as_id: u32) -> Result<bool, Unreadable> {
    let set = Slots::of::<Helper>(kvm, as_id)?;
    // In an update the set in force is the new one already, under the old one's generation.
    if setting!(walk_slots) == 0 || set.generation & UPDATE_IN_PROGRESS != 0 || !subject::is_known(kvm) {
        return Err(Unreadable);
    }
    cursor.begin_or_go_on(set.root, set.generation)?;
    let mut moves = 0;
    while moves < MOVES {
        moves += 1;
        let address = cursor.node.get();
        if address == 0 {
            // Over; and worth something if the set is still in force.
            let now = Slots::of::<Helper>(kvm, as_id)?;
            return if now.generation == set.generation && subject::is_known(kvm) {
                Ok(true)
            } else {
                Err(Unreadable)
            };
        }
        let node: SlotNode = read(set.node_array(address))?;
        let links = set.links(&node);
        if cursor.from.get() == 0 {
            let mut record = SlotChange {
                kind: kind::SLOT_CHANGE,
                change: change::SNAPSHOT,
                time: now(),
                kvm,
                generation: set.generation,
                order: cursor.next_order(),
                black: u16::from(links.is_black()),
                ..SlotChange::ZERO
            };
            slots::fill(set.slot(address), &mut record)?;
            emit(probe::LAYOUT, OTHERS, &record);
        }
        cursor.step(&links);
    }
    Ok(false)
}

#[inline(always)]
fn walk_regions(cursor: &mut Cursor, iotlb: u64) -> Result<bool, Unreadable> {
    if setting!(walk_regions) == 0 {
        return Err(Unreadable);
    }
    let nmaps: u32 = read(iotlb + u64::from(setting!(iotlb_nmaps)))?;
    let root: u64 = read(iotlb + u64::from(setting!(iotlb_root)))?;
    cursor.begin_or_go_on(root, u64::from(nmaps))?;
    let mut moves = 0;
    while moves < MOVES {
        moves += 1;
        let address = cursor.node.get();
        if address == 0 {
            let now: u32 = read(iotlb + u64::from(setting!(iotlb_nmaps)))?;
            let whole = now == nmaps && cursor.order.get() == u64::from(nmaps);
            return if whole { Ok(true) } else { Err(Unreadable) };
        }
        let node: RegionNode = read(address)?;
        if cursor.from.get() == 0 {
            let record = RegionChange {
                kind: kind::REGION_CHANGE,
                change: change::SNAPSHOT,
                time: now(),
                iotlb,
                start: node.start,
                last: node.last,
                hva: node.addr,
                order: cursor.next_order(),
                perm: node.perm as u8,
                black: u8::from(node.rb.is_black()),
                reserved: 0,
            };
            emit(probe::LAYOUT, OTHERS, &record);
        }
        cursor.step(&node.rb);
    }
    Ok(false)
}

#[inline(always)]
fn run(walk: impl FnOnce(&mut Cursor) -> Result<bool, Unreadable>) -> i32 {
    if let Some(cursor) = Cursor::get() {
        let status = match walk(cursor) {
            Ok(true) => snapshot::DONE,
            Ok(false) => snapshot::MORE,
            Err(Unreadable) => snapshot::CHANGED,
        };
        cursor.status.set(status);
    }
    0
}

/// Arguments: address of the `struct kvm`, address space.
#[raw_tracepoint]
pub fn snapshot_slots(context: RawTracePointContext) -> i32 {
    run(|cursor| walk_slots(cursor, context.arg(0), context.arg::<u32>(1) & 1))
}

/// Argument: address of the `struct vhost_iotlb`.
#[raw_tracepoint]
pub fn snapshot_regions(context: RawTracePointContext) -> i32 {
    run(|cursor| walk_regions(cursor, context.arg(0)))
}
