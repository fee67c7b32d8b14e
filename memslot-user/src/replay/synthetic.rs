//! Makes recordings without a kernel: faults and translations whose search lengths come from the
//! kernel's trees as `rbtree`, `interval_tree` and the last-used slot model them.
//!
//! For tests, benchmarks and trying the tool out; a recording says in its label that it is synthetic.

use crate::engine::{DynamicEngine, Engine, IntervalTree, Range, RbTree, search_with_last_used};
use crate::model::{
    Class, DeviceId, Fault, Gfn, Gpa, Memslot, Region, RegionChange, RegionChangeKind, SearchLength,
    SlotChange, SlotChangeKind, TableId, Translation, VmId,
};
use crate::recording::{Error, Meta, Options, TableMeta, VmMeta, Writer};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Slots of the VM.
    pub slots: u32,
    /// Faults of its vCPUs.
    pub faults: u32,
    /// A slot is changed every so many faults; 0, never.
    pub churn: u32,
    /// Regions of the vhost table.
    pub regions: u32,
    /// Calls of `translate_desc`.
    pub translations: u32,
    /// VM and table existed before: their layouts come as snapshots.
    pub older: bool,
    /// Of the random numbers.
    pub seed: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self { slots: 53, faults: 20_000, churn: 500, regions: 53, translations: 5000, older: false, seed: 1 }
    }
}

/// ns of a call without its search, and for every node.
pub const BASE: u64 = 2000;
/// ns a node.
pub const STEP: u64 = 25;
/// Frames between the starts of slots.
const SPACING: u64 = 1024;
/// vCPUs.
const VCPUS: u32 = 4;

/// Writes a recording into a new directory.
///
/// # Errors
/// It cannot be written.
pub fn write(dir: &Path, shape: &Shape) -> Result<(), Error> {
    let mut meta = Meta { label: Some("synthetic".to_owned()), ..Meta::default() };
    meta.host.name = "synthetic".to_owned();
    meta.vms.push(VmMeta { vm: VmId(0), pid: 1, name: "vm".to_owned(), older: shape.older, gone: None });
    meta.tables.push(TableMeta { table: TableId(0), device: DeviceId(0), older: shape.older });
    let mut writer = Writer::create(dir, &meta, Options::default())?;
    let mut rng = SmallRng::seed_from_u64(shape.seed);
    Vm::new(shape).run(shape, &mut rng, &mut writer)?;
    translations(shape, &mut rng, &mut writer)?;
    writer.finish(meta).map(drop)
}

/// A VM as KVM keeps it.
struct Vm {
    time: u64,
    generation: u64,
    tree: RbTree,
    slots: BTreeMap<i32, Memslot>,
    /// By vCPU: the generation of the last search that found a slot, and the slot.
    last_used: [(u64, Option<Range>); VCPUS as usize],
    /// Changes that the recorder has not received yet.
    late: Vec<SlotChange>,
}

impl Vm {
    fn new(shape: &Shape) -> Self {
        // A VM that is older has had other generations before.
        let generation = if shape.older { 4000 } else { 0 };
        Self {
            time: 1_000_000_000,
            generation,
            tree: RbTree::default(),
            slots: BTreeMap::new(),
            last_used: [(0, None); VCPUS as usize],
            late: Vec::new(),
        }
    }

    fn run(mut self, shape: &Shape, rng: &mut SmallRng, writer: &mut Writer) -> Result<(), Error> {
        let mut ids: Vec<i32> = (0..).take(shape.slots as usize).collect();
        ids.shuffle(rng);
        for id in ids {
            let slot = Memslot {
                id,
                base_gfn: Gfn(u64::from(id.unsigned_abs()) * SPACING),
                npages: rng.random_range(1..=SPACING),
            };
            self.create(slot);
        }
        if shape.older {
            self.snapshot(writer)?;
        }
        for number in 0..shape.faults {
            if shape.churn > 0 && number % shape.churn == shape.churn - 1 {
                self.change(shape, rng, writer)?;
            }
            self.fault(shape, rng, writer)?;
            // The recorder receives changes some faults late.
            if number % 7 == 0 {
                self.deliver(writer)?;
            }
        }
        self.deliver(writer)
    }

    fn deliver(&mut self, writer: &mut Writer) -> Result<(), Error> {
        self.late.drain(..).try_for_each(|change| writer.push_slot_change(&change))
    }

    fn range(slot: &Memslot) -> Range {
        let key = slot.id.unsigned_abs();
        Range { start: slot.base_gfn.0, last: slot.base_gfn.0 + slot.npages - 1, key }
    }

    fn tell(&mut self, kind: SlotChangeKind, slot: Memslot) {
        self.time += 100;
        let (time, generation) = (self.time, self.generation);
        self.late.push(SlotChange {
            time,
            vm: VmId(0),
            as_id: 0,
            generation,
            kind,
            slot,
            flags: 0,
            hva: 0x7f00 << 32,
        });
    }

    /// `KVM_MR_CREATE`: one generation.
    fn create(&mut self, slot: Memslot) {
        if self.tree.insert(Self::range(&slot)).is_ok() {
            self.slots.insert(slot.id, slot);
            self.generation += 2;
            self.tell(SlotChangeKind::Create, slot);
        }
    }

    /// The slots as a walk over the live tree has them; what was told before is forgotten.
    fn snapshot(&mut self, writer: &mut Writer) -> Result<(), Error> {
        self.late.clear();
        for (node, order) in self.tree.pre_order().into_iter().zip(0..) {
            let slot = self.slots.values().copied().find(|slot| Self::range(slot) == node.range);
            if let Some(slot) = slot {
                self.tell(SlotChangeKind::Snapshot { order, black: node.black }, slot);
            }
        }
        self.deliver(writer)
    }

    /// Deletes, makes again, moves or re-flags a random slot.
    fn change(&mut self, shape: &Shape, rng: &mut SmallRng, writer: &mut Writer) -> Result<(), Error> {
        let place = rng.random_range(0..self.slots.len().max(1));
        let Some(slot) = self.slots.values().nth(place).copied() else { return Ok(()) };
        match rng.random_range(0..4) {
            0 => {
                self.generation += 2;
                self.tell(SlotChangeKind::Flags, slot);
                self.in_progress(shape, rng, writer)?;
            }
            1 => {
                // In between, the old slot is still searched.
                self.generation += 2;
                self.in_progress(shape, rng, writer)?;
                self.fault(shape, rng, writer)?;
                self.generation += 2;
                self.tree.remove(slot.base_gfn.0);
                self.slots.remove(&slot.id);
                self.tell(SlotChangeKind::Delete, slot);
                self.in_progress(shape, rng, writer)?;
                self.fault(shape, rng, writer)?;
                self.create(slot);
                self.in_progress(shape, rng, writer)?;
            }
            _ => {
                let span = u64::from(shape.slots) * SPACING;
                let to = (slot.base_gfn.0 + span) % (2 * span);
                let moved = Memslot { base_gfn: Gfn(to), ..slot };
                let free = !self.slots.values().any(|held| Self::range(held).overlaps(&Self::range(&moved)));
                if free {
                    self.generation += 2;
                    self.fault(shape, rng, writer)?;
                    self.generation += 2;
                    self.tree.remove(slot.base_gfn.0);
                    if self.tree.insert(Self::range(&moved)).is_ok() {
                        self.slots.insert(slot.id, moved);
                    }
                    self.tell(SlotChangeKind::Move { old_base_gfn: slot.base_gfn }, moved);
                }
            }
        }
        Ok(())
    }

    /// A fault after the set was exchanged and before it has its own generation.
    fn in_progress(&mut self, shape: &Shape, rng: &mut SmallRng, writer: &mut Writer) -> Result<(), Error> {
        let done = self.generation;
        self.generation = (done - 2) | Fault::UPDATE_IN_PROGRESS;
        let written = self.fault(shape, rng, writer);
        self.generation = done;
        written
    }

    fn fault(&mut self, shape: &Shape, rng: &mut SmallRng, writer: &mut Writer) -> Result<(), Error> {
        let vcpu = rng.random_range(0..VCPUS);
        let span = 2 * u64::from(shape.slots) * SPACING;
        let (generation, held) = self.last_used[vcpu as usize];
        let last_used = held.filter(|_| generation == self.generation);
        // A third stays where the vCPU was before.
        let gfn = match last_used {
            Some(range) if rng.random_ratio(1, 3) => rng.random_range(range.start..=range.last),
            _ => rng.random_range(0..span),
        };
        let search = search_with_last_used(&self.tree, gfn, last_used);
        let found = self.tree.search(gfn, &mut ());
        if let Some(found) = found {
            self.last_used[vcpu as usize] = (self.generation, Some(found));
        }
        self.time += rng.random_range(500..5000_u64);
        let id = |range: Option<Range>| range.and_then(|range| i32::try_from(range.key).ok());
        writer.push_fault(&Fault {
            time: self.time,
            latency: BASE + STEP * u64::from(search.length.visited) + rng.random_range(0..200_u64),
            on_cpu: None,
            cpu: vcpu,
            vm: VmId(0),
            vcpu,
            gpa: Gpa(Gfn(gfn).gpa().0 + rng.random_range(0..4096_u64)),
            error_code: 0x1_0000_0006,
            class: if found.is_some() { Class::Ram } else { Class::NoSlot },
            as_id: 0,
            slot: id(found),
            last_used: id(last_used),
            ret: i32::from(found.is_some()),
            length: Some(search.length),
            generation: self.generation & !Fault::UPDATE_IN_PROGRESS,
            ambiguous: self.generation & Fault::UPDATE_IN_PROGRESS != 0,
        })
    }
}

const EFAULT: i32 = -14;

/// A table whose regions stand in adjacent pairs, and calls that reach into the next region or past it.
fn translations(shape: &Shape, rng: &mut SmallRng, writer: &mut Writer) -> Result<(), Error> {
    const SIZE: u64 = 0x10_0000;
    let region = |number: u32| {
        let start = u64::from(number / 2) * 3 * SIZE + u64::from(number % 2) * SIZE;
        Range { start, last: start + SIZE - 1, key: number }
    };
    let mut numbers: Vec<u32> = (0..shape.regions).collect();
    numbers.shuffle(rng);
    let ranges: Vec<Range> = numbers.iter().map(|number| region(*number)).collect();
    let tree = IntervalTree::build(&ranges).unwrap_or_default();
    let mut time = 1_000_000_000;
    let tell = |time, kind, range: &Range| RegionChange {
        time,
        table: TableId(0),
        kind,
        region: Region { start: range.start, last: range.last },
        hva: 0x7f00 << 32,
        perm: 3,
    };
    if shape.older {
        for (node, order) in tree.pre_order().iter().zip(0..) {
            let kind = RegionChangeKind::Snapshot { order, black: node.black };
            writer.push_region_change(&tell(time + 5000, kind, &node.range))?;
        }
    } else {
        for range in &ranges {
            time += 10;
            writer.push_region_change(&tell(time, RegionChangeKind::Add, range))?;
        }
    }
    for _ in 0..if shape.regions > 0 { shape.translations } else { 0 } {
        let first = region(rng.random_range(0..shape.regions));
        let addr = rng.random_range(first.start..=first.last);
        let len: u32 = if rng.random_ratio(1, 8) { 0x8_0000 } else { rng.random_range(1..1500) };
        let last = addr + u64::from(len) - 1;
        // Regions are so large that a call meets two at most.
        let mut length = SearchLength::default();
        tree.first(addr, last, &mut length);
        let mut ret = 1;
        if last > first.last {
            let second = tree.first(first.last + 1, last, &mut length);
            ret = if second.is_some_and(|range| range.start == first.last + 1) { 2 } else { EFAULT };
        }
        time += rng.random_range(300..2000_u64);
        writer.push_translation(&Translation {
            time,
            latency: BASE + STEP * u64::from(length.visited) + rng.random_range(0..200_u64),
            on_cpu: None,
            cpu: 0,
            device: DeviceId(0),
            table: TableId(0),
            worker: 7,
            queue: Some(1),
            addr,
            len,
            access: 1,
            ret,
            regions: shape.regions,
            length: Some(length),
            is_iotlb: false,
        })?;
    }
    Ok(())
}
