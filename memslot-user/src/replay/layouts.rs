//! The slots of a VM's address space by generation, rebuilt from their changes.
//!
//! Changes and faults reach the recorder by different ways, so they are joined by generation, not by
//! time: a fault at generation g sees every change with a generation up to g. A deletion or a move
//! takes two generations; in the first the old slot, marked invalid, is still searched.

use super::timeline::{Layout, Step, Timeline};
use super::unjoined::Unjoined;
use crate::engine::{DynamicEngine, Range, RbTree, SnapshotNode};
use crate::model::{Fault, SlotChange, SlotChangeKind, VmId};
use crate::recording::Meta;
use std::collections::BTreeMap;

/// A VM and an address space of it.
pub(super) type Space = (VmId, u16);

/// The slots in force, as the kernel holds them and in the order of their registration.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotLayout {
    /// The kernel's tree, of the very shape.
    pub(super) tree: RbTree,
    /// In the order of registration; after a snapshot, which does not tell it, in the order of ids.
    pub(super) ranges: Vec<Range>,
    /// It came from a snapshot: the order of registration is made up.
    pub(super) order_unknown: bool,
    ids: BTreeMap<i32, Range>,
    next_key: u32,
}

impl SlotLayout {
    /// The slot of an id.
    pub(super) fn slot(&self, id: i32) -> Option<Range> {
        self.ids.get(&id).copied()
    }

    fn insert(&mut self, change: &SlotChange, place: usize) -> Result<(), Unjoined> {
        let range = Range::of_slot(&change.slot, self.next_key).ok_or(Unjoined::ChangesLost)?;
        if self.ids.contains_key(&change.slot.id) {
            return Err(Unjoined::ChangesLost);
        }
        self.tree.insert(range).map_err(|_| Unjoined::ChangesLost)?;
        self.next_key += 1;
        self.ids.insert(change.slot.id, range);
        self.ranges.insert(place.min(self.ranges.len()), range);
        Ok(())
    }

    /// Removes a slot; returns where it stood in the order of registration.
    fn remove(&mut self, id: i32, base: u64) -> Result<usize, Unjoined> {
        let range = self.ids.get(&id).filter(|range| range.start == base).ok_or(Unjoined::ChangesLost)?;
        let place = self.ranges.iter().position(|held| held == range).ok_or(Unjoined::ChangesLost)?;
        self.tree.remove(base).ok_or(Unjoined::ChangesLost)?;
        self.ids.remove(&id);
        self.ranges.remove(place);
        Ok(place)
    }
}

impl Layout for SlotLayout {
    type Change = SlotChange;
    type Limits = ();

    fn apply(&mut self, change: &SlotChange, (): ()) -> Result<(), Unjoined> {
        let (id, base) = (change.slot.id, change.slot.base_gfn.0);
        match change.kind {
            SlotChangeKind::Create => self.insert(change, usize::MAX),
            SlotChangeKind::Delete => self.remove(id, base).map(drop),
            SlotChangeKind::Move { old_base_gfn } => {
                let place = self.remove(id, old_base_gfn.0)?;
                self.insert(change, place)
            }
            // The node is exchanged in its place: the tree keeps its shape.
            SlotChangeKind::Flags => match self.ids.get(&id) {
                Some(range) if range.start == base => Ok(()),
                _ => Err(Unjoined::ChangesLost),
            },
            SlotChangeKind::Snapshot { .. } => Ok(()),
        }
    }

    fn of_snapshot(rows: &[SlotChange]) -> Result<Self, Unjoined> {
        let mut layout = Self { order_unknown: true, ..Self::default() };
        let mut walk = Vec::with_capacity(rows.len());
        for (place, (row, key)) in rows.iter().zip(0..).enumerate() {
            let range = Range::of_slot(&row.slot, key).ok_or(Unjoined::BadSnapshot)?;
            match row.kind {
                SlotChangeKind::Snapshot { order, black } if order as usize == place => {
                    walk.push(SnapshotNode { range, black });
                }
                _ => return Err(Unjoined::BadSnapshot),
            }
            layout.ids.insert(row.slot.id, range);
            layout.next_key = key + 1;
        }
        layout.tree = RbTree::from_snapshot(&walk).map_err(|_| Unjoined::BadSnapshot)?;
        layout.ranges = layout.ids.values().copied().collect();
        if layout.ranges.len() == walk.len() { Ok(layout) } else { Err(Unjoined::BadSnapshot) }
    }
}

/// One address space as its generation goes on.
pub(super) type SlotHistory = Timeline<SlotLayout>;

/// A history from its changes in any order. `older`: the VM existed before the recording.
pub(super) fn history(mut changes: Vec<SlotChange>, older: bool) -> SlotHistory {
    // A snapshot at a generation already holds that generation's change, so it comes after it.
    changes.sort_by_key(|change| (change.generation, is_snapshot(change), change.time));
    let mut steps: Vec<(u64, Step<SlotChange>)> = Vec::with_capacity(changes.len());
    for change in changes {
        match (change.kind, steps.last_mut()) {
            (SlotChangeKind::Snapshot { order, .. }, Some((generation, Step::Snapshot(rows))))
                if *generation == change.generation =>
            {
                // The rows of a snapshot that was tried again follow each other; the last one counts.
                if order == 0 {
                    rows.clear();
                }
                rows.push(change);
            }
            (SlotChangeKind::Snapshot { .. }, _) => {
                steps.push((change.generation, Step::Snapshot(vec![change])));
            }
            _ => steps.push((change.generation, Step::Change(change))),
        }
    }
    let snapshot = steps.iter().position(|step| matches!(step.1, Step::Snapshot(_)));
    let state = match (older, snapshot) {
        (true, Some(_)) => Err(Unjoined::BeforeSnapshot),
        (true, None) => Err(Unjoined::NoLayout),
        (false, _) => Ok(SlotLayout::default()),
    };
    // What came before the first snapshot cannot be used on an unknown layout.
    let first = if older { snapshot.unwrap_or(steps.len()) } else { 0 };
    Timeline::new(steps, first, state, ())
}

fn is_snapshot(change: &SlotChange) -> bool {
    matches!(change.kind, SlotChangeKind::Snapshot { .. })
}

/// The histories of the address spaces of a recording.
pub(super) struct Histories<'a> {
    meta: &'a Meta,
    by_space: BTreeMap<Space, SlotHistory>,
}

impl<'a> Histories<'a> {
    /// Of those that changes tell of.
    pub(super) fn new(meta: &'a Meta, changes: Vec<SlotChange>) -> Self {
        let mut by_space: BTreeMap<Space, Vec<SlotChange>> = BTreeMap::new();
        for change in changes {
            by_space.entry((change.vm, change.as_id)).or_default().push(change);
        }
        let of = |(space, changes): (Space, Vec<SlotChange>)| (space, Self::history(meta, space, changes));
        Self { meta, by_space: by_space.into_iter().map(of).collect() }
    }

    /// That of one space, which may never have changed.
    pub(super) fn of(&mut self, space: Space) -> &mut SlotHistory {
        let meta = self.meta;
        self.by_space.entry(space).or_insert_with(|| Self::history(meta, space, Vec::new()))
    }

    fn history(meta: &Meta, space: Space, changes: Vec<SlotChange>) -> SlotHistory {
        let known = meta.vms.iter().find(|known| known.vm == space.0).map(|known| known.older);
        // A recording that was cut off may not say; then a snapshot says it.
        let older = known.unwrap_or_else(|| changes.iter().any(is_snapshot));
        history(changes, older)
    }
}

/// How far a VM's generations are apart: KVM deals them out to the address spaces in turn
/// (`kvm_swap_active_memslots`), of which x86 has two, and one where a VM has private memory. With two,
/// those of space 0 are even. `any_is_odd`: of the generations of the space's faults.
pub(super) fn generation_step(space: Space, any_is_odd: bool) -> u64 {
    if space.1 == 0 && any_is_odd { 1 } else { 2 }
}

/// The generation whose slots a fault saw that came while an update was in progress.
/// `kvm_swap_active_memslots` marks the *new* set with the old generation and bit 63, puts it in
/// force, waits for the readers of the old one, and only then gives it its own generation.
pub(super) fn in_force(generation: u64, step: u64) -> u64 {
    generation.saturating_add(step)
}

/// The address space of a fault.
pub(super) fn space(fault: &Fault) -> Space {
    (fault.vm, u16::from(fault.as_id))
}
