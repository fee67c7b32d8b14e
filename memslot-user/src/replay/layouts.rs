//! The slots of a VM's address space by generation, rebuilt from their changes.
//!
//! Changes and faults reach the recorder by different ways, so they are joined by generation, not by
//! time: a fault at generation g sees every change with a generation up to g. A deletion or a move
//! takes two generations; in the first the old slot, marked invalid, is still searched.

use crate::engine::{DynamicEngine, Range, RbTree, SnapshotNode};
use crate::model::{Fault, SlotChange, SlotChangeKind, VmId};
use crate::recording::Meta;
use std::collections::BTreeMap;

/// A VM and an address space of it.
pub(super) type Space = (VmId, u16);

/// Why an event cannot be joined with a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unjoined {
    /// The VM or table is older than the recording, and no snapshot tells what it held.
    NoLayout,
    /// The event came before the snapshot.
    BeforeSnapshot,
    /// A slot set was being exchanged, and the fault does not agree with the new one.
    Ambiguous,
    /// Changes contradict each other: some were lost.
    ChangesLost,
    /// The snapshot is none of a red-black tree: it was taken while the tree changed.
    BadSnapshot,
    /// The fault found another slot, or the call another result, than the layout gives.
    Disagrees,
    /// Regions overlap, so that engines may differ without fault.
    Overlap,
    /// The call ended because its iovec was full; how many searches it made is unknown.
    IovecFull,
}

impl Unjoined {
    /// The reason in tables and JSON.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::NoLayout => "no layout",
            Self::BeforeSnapshot => "before the layout was known",
            Self::Ambiguous => "ambiguous generation",
            Self::ChangesLost => "layout changes lost",
            Self::BadSnapshot => "unusable snapshot",
            Self::Disagrees => "layout disagrees with the event",
            Self::Overlap => "overlapping regions",
            Self::IovecFull => "ended by a full iovec",
        }
    }
}

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

    fn apply(&mut self, change: &SlotChange) -> Result<(), Unjoined> {
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

    /// The layout of a snapshot's rows, in pre-order.
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
#[derive(Debug)]
pub(super) struct SlotHistory {
    changes: Vec<SlotChange>,
    next: usize,
    state: Result<SlotLayout, Unjoined>,
}

impl SlotHistory {
    /// A history from its changes in any order. `older`: the VM existed before the recording.
    pub(super) fn new(mut changes: Vec<SlotChange>, older: bool) -> Self {
        // A snapshot at a generation already holds that generation's change, so it comes after it.
        changes.sort_by_key(|change| match change.kind {
            SlotChangeKind::Snapshot { .. } => (change.generation, true, change.time),
            _ => (change.generation, false, change.time),
        });
        let snapshot =
            changes.iter().position(|change| matches!(change.kind, SlotChangeKind::Snapshot { .. }));
        let state = match (older, snapshot) {
            (true, Some(_)) => Err(Unjoined::BeforeSnapshot),
            (true, None) => Err(Unjoined::NoLayout),
            (false, _) => Ok(SlotLayout::default()),
        };
        // What came before the first snapshot cannot be used on an unknown layout.
        let next = if older { snapshot.unwrap_or(changes.len()) } else { 0 };
        Self { changes, next, state }
    }

    /// The layout at a generation, which must not be below that of the last call.
    pub(super) fn at(&mut self, generation: u64) -> Result<&SlotLayout, Unjoined> {
        while let Some(change) = self.changes.get(self.next).filter(|change| change.generation <= generation)
        {
            if !matches!(change.kind, SlotChangeKind::Snapshot { .. }) {
                self.next += 1;
                if let Ok(layout) = &mut self.state
                    && let Err(reason) = layout.apply(&change.clone())
                {
                    self.state = Err(reason);
                }
                continue;
            }
            // The rows of a snapshot that was tried again follow each other; the last one counts.
            let rows = &self.changes[self.next..];
            let count = rows
                .iter()
                .take_while(|row| {
                    row.generation == change.generation && matches!(row.kind, SlotChangeKind::Snapshot { .. })
                })
                .count();
            let last = rows[..count]
                .iter()
                .rposition(|row| matches!(row.kind, SlotChangeKind::Snapshot { order: 0, .. }))
                .unwrap_or(0);
            self.state = SlotLayout::of_snapshot(&rows[last..count]);
            self.next += count;
        }
        self.state.as_ref().map_err(|reason| *reason)
    }
}

/// The histories of all address spaces of a recording.
pub(super) fn histories(
    meta: &Meta,
    changes: Vec<SlotChange>,
    faults: impl IntoIterator<Item = Space>,
) -> BTreeMap<Space, SlotHistory> {
    let mut by_space: BTreeMap<Space, Vec<SlotChange>> =
        faults.into_iter().map(|space| (space, Vec::new())).collect();
    for change in changes {
        by_space.entry((change.vm, change.as_id)).or_default().push(change);
    }
    let known = |vm: VmId| meta.vms.iter().find(|known| known.vm == vm).map(|known| known.older);
    by_space
        .into_iter()
        .map(|(space, changes)| {
            // A recording that was cut off may not say; then a snapshot says it.
            let snapshot =
                || changes.iter().any(|change| matches!(change.kind, SlotChangeKind::Snapshot { .. }));
            let older = known(space.0).unwrap_or_else(snapshot);
            (space, SlotHistory::new(changes, older))
        })
        .collect()
}

/// How far a VM's generations are apart: KVM deals them out to the address spaces in turn
/// (`kvm_swap_active_memslots`), of which x86 has two, and one where a VM has private memory. With two,
/// those of space 0 are even.
pub(super) fn generation_step(space: Space, mut generations: impl Iterator<Item = u64>) -> u64 {
    if space.1 == 0 && generations.any(|generation| generation % 2 == 1) { 1 } else { 2 }
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
