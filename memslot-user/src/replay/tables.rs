//! The regions of a vhost table by time, rebuilt from their changes.
//!
//! A table has no generation. But vhost fills a memory table before it uses it, and changes a device
//! IOTLB under the lock that translations take, so time joins them; the number of regions that each
//! call saw checks it.

use super::timeline::{Layout, Step, Timeline};
use super::unjoined::Unjoined;
use crate::engine::{DynamicEngine, IntervalTree, Range, SnapshotNode};
use crate::model::{RegionChange, RegionChangeKind};
use std::collections::BTreeMap;

/// The regions in force.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionLayout {
    /// The kernel's tree, of the very shape.
    pub(super) tree: IntervalTree,
    /// In the order in which they were added; after a snapshot in ascending order.
    pub(super) ranges: Vec<Range>,
    /// `VHOST_ACCESS_*` by key.
    permissions: BTreeMap<u32, u8>,
    next_key: u32,
    /// It came from a snapshot: the order of adding is made up, and so is which region is retired.
    pub(super) order_unknown: bool,
    /// Of an addition of all addresses the lower half was put in, and vhost's inner call may tell of
    /// it once more.
    lower_half: bool,
}

/// The two halves as which vhost adds a region of all 2^64 addresses.
const LOWER: (u64, u64) = (0, u64::MAX / 2);
const UPPER: (u64, u64) = (u64::MAX / 2 + 1, u64::MAX);

impl RegionLayout {
    /// What the region of `key` may be used for.
    pub(super) fn permission(&self, key: u32) -> u8 {
        self.permissions.get(&key).copied().unwrap_or(0)
    }

    fn add(&mut self, (start, last): (u64, u64), permission: u8, limit: usize) -> Result<(), Unjoined> {
        if self.ranges.len() >= limit {
            // `vhost_iotlb_add_range_ctx` retires the oldest at the table's limit.
            if self.order_unknown {
                return Err(Unjoined::ChangesLost);
            }
            let oldest = self.ranges.remove(0);
            self.permissions.remove(&oldest.key);
            self.take_out(oldest)?;
        }
        let range = Range { start, last, key: self.next_key };
        self.tree.insert(range).map_err(|_| Unjoined::ChangesLost)?;
        self.next_key += 1;
        self.permissions.insert(range.key, permission);
        self.ranges.push(range);
        Ok(())
    }

    /// Takes one region from the tree, which must be the one of its start.
    fn take_out(&mut self, range: Range) -> Result<(), Unjoined> {
        match self.tree.remove(range.start) {
            Some(removed) if removed == range => Ok(()),
            // Several regions of one start: which node went cannot be told.
            _ => Err(Unjoined::ChangesLost),
        }
    }
}

impl Layout for RegionLayout {
    type Change = RegionChange;
    /// Regions that the table can have (`vhost.max_iotlb_entries`).
    type Limits = usize;

    fn apply(&mut self, change: &RegionChange, limit: usize) -> Result<(), Unjoined> {
        let (start, last) = (change.region.start, change.region.last);
        let told_twice = std::mem::take(&mut self.lower_half) && (start, last) == LOWER;
        match change.kind {
            RegionChangeKind::Add if told_twice => Ok(()),
            // Refused by vhost.
            RegionChangeKind::Add if last < start => Ok(()),
            RegionChangeKind::Add if (start, last) == (0, u64::MAX) => {
                // The inner call may have told of the lower half already.
                if self.ranges.last().is_none_or(|range| (range.start, range.last) != LOWER) {
                    self.add(LOWER, change.perm, limit)?;
                    self.lower_half = true;
                }
                self.add(UPPER, change.perm, limit)
            }
            RegionChangeKind::Add => self.add((start, last), change.perm, limit),
            RegionChangeKind::RemoveRange => {
                while let Some(removed) = self.tree.remove_first(start, last) {
                    self.ranges.retain(|range| range.key != removed.key);
                    self.permissions.remove(&removed.key);
                }
                Ok(())
            }
            RegionChangeKind::Free => {
                *self = Self { next_key: self.next_key, ..Self::default() };
                Ok(())
            }
            RegionChangeKind::Snapshot { .. } => Ok(()),
        }
    }

    fn of_snapshot(rows: &[RegionChange]) -> Result<Self, Unjoined> {
        let mut layout = Self { order_unknown: true, ..Self::default() };
        let mut walk = Vec::with_capacity(rows.len());
        for (row, key) in rows.iter().zip(0..) {
            let range = Range::of_region(&row.region, key).ok_or(Unjoined::BadSnapshot)?;
            let RegionChangeKind::Snapshot { black, .. } = row.kind else {
                return Err(Unjoined::BadSnapshot);
            };
            walk.push(SnapshotNode { range, black });
            layout.permissions.insert(key, row.perm);
            layout.ranges.push(range);
            layout.next_key = key + 1;
        }
        layout.tree = IntervalTree::from_snapshot(&walk).map_err(|_| Unjoined::BadSnapshot)?;
        layout.ranges.sort_by_key(|range| range.start);
        Ok(layout)
    }
}

/// One table as time goes on.
pub(super) type TableHistory = Timeline<RegionLayout>;

/// A history from its changes in any order. `older`: the table existed before the recording; `None`,
/// unknown. `limit`: regions that the table can have.
pub(super) fn history(mut changes: Vec<RegionChange>, older: Option<bool>, limit: usize) -> TableHistory {
    changes.sort_by_key(|change| change.time);
    let mut steps: Vec<(u64, Step<RegionChange>)> = Vec::new();
    let mut snapshot: Option<Vec<RegionChange>> = None;
    for change in changes {
        let RegionChangeKind::Snapshot { order, .. } = change.kind else {
            steps.push((change.time, Step::Change(change)));
            continue;
        };
        let rows = snapshot.get_or_insert_default();
        if order == 0 {
            rows.clear();
        }
        if order as usize == rows.len() {
            rows.push(change);
        }
    }
    let older = older.unwrap_or(snapshot.is_some());
    let mut state = if older {
        Err(if snapshot.is_some() { Unjoined::BeforeSnapshot } else { Unjoined::NoLayout })
    } else {
        Ok(RegionLayout::default())
    };
    if let Some(rows) = snapshot {
        let time = rows.last().map_or(0, |row| row.time);
        let place = steps.partition_point(|step| step.0 <= time);
        if place == 0 {
            // Nothing changed up to the snapshot, so the table held the same before.
            state = RegionLayout::of_snapshot(&rows);
        } else {
            steps.insert(place, (time, Step::Snapshot(rows)));
        }
    }
    Timeline::new(steps, 0, state, limit)
}
