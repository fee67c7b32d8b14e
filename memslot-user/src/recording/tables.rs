//! The tables of a recording: their columns, and how the model's structures become rows.
//!
//! `docs/recording-format.md` explains each column; a test compares the two.

use super::SCHEMA;
use super::cell::{Cell, Name, Named};
use super::row::{Row, Stored, table};
use crate::model::{
    Class, DeviceId, Fault, Gfn, Gpa, Memslot, PleExit, Region, RegionChange, RegionChangeKind, SearchLength,
    SlotChange, SlotChangeKind, TableId, Translation, VmId,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use std::sync::Arc;

table! {
    /// One call of `kvm_mmu_page_fault`.
    FaultRow, FaultColumns, "faults.arrow", 1, Fault {
        time: u64,
        latency: u64,
        on_cpu: Option<u64>,
        cpu: u32,
        vm: u32,
        vcpu: u32,
        gpa: u64,
        error_code: u64,
        class: Named<Class>,
        as_id: u8,
        slot: Option<i32>,
        last_used: Option<i32>,
        ret: i32,
        visited: Option<u32>,
        touched: Option<u32>,
        generation: u64,
        ambiguous: bool,
    }
}

table! {
    /// One PLE exit.
    PleRow, PleColumns, "ple_exits.arrow", 1, PleExit {
        time: u64,
        latency: u64,
        on_cpu: Option<u64>,
        on_spin: Option<u64>,
        cpu: u32,
        vm: u32,
        vcpu: u32,
        window_before: u32,
        window_after: u32,
        yields: u32,
        boosted: u32,
        declined: u32,
        undercommit: u32,
    }
}

table! {
    /// One call of `translate_desc`.
    TranslationRow, TranslationColumns, "translations.arrow", 1, Translation {
        time: u64,
        latency: u64,
        on_cpu: Option<u64>,
        cpu: u32,
        device: u32,
        table: u32,
        worker: u32,
        queue: Option<u16>,
        addr: u64,
        len: u32,
        access: u8,
        ret: i32,
        regions: u32,
        visited: Option<u32>,
        touched: Option<u32>,
        is_iotlb: bool,
    }
}

table! {
    /// One change of a VM's slots.
    SlotRow, SlotColumns, "slots.arrow", 1, SlotChange {
        time: u64,
        vm: u32,
        as_id: u16,
        generation: u64,
        kind: Named<SlotName>,
        id: i32,
        base_gfn: u64,
        npages: u64,
        old_base_gfn: Option<u64>,
        order: Option<u32>,
        black: Option<bool>,
        flags: u32,
        hva: u64,
    }
}

table! {
    /// One change of a vhost table.
    RegionRow, RegionColumns, "regions.arrow", 1, RegionChange {
        time: u64,
        table: u32,
        kind: Named<RegionName>,
        start: u64,
        last: u64,
        order: Option<u32>,
        black: Option<bool>,
        hva: u64,
        perm: u8,
    }
}

impl Name for Class {
    const ALL: &'static [Self] = &Class::ALL;
    fn text(self) -> &'static str {
        self.name()
    }
    fn key(self) -> i8 {
        self as i8
    }
}

/// [`SlotChangeKind`] without what belongs to it.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotName {
    /// `Snapshot`
    Snapshot,
    /// `Create`
    Create,
    /// `Delete`
    Delete,
    /// `Move`
    Move,
    /// `Flags`
    Flags,
}

impl Name for SlotName {
    const ALL: &'static [Self] = &[Self::Snapshot, Self::Create, Self::Delete, Self::Move, Self::Flags];
    fn text(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Create => "create",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Flags => "flags",
        }
    }
    fn key(self) -> i8 {
        self as i8
    }
}

/// [`RegionChangeKind`] without what belongs to it.
#[derive(Clone, Copy, Debug)]
pub(super) enum RegionName {
    /// `Snapshot`
    Snapshot,
    /// `Add`
    Add,
    /// `RemoveRange`
    RemoveRange,
    /// `Free`
    Free,
}

impl Name for RegionName {
    const ALL: &'static [Self] = &[Self::Snapshot, Self::Add, Self::RemoveRange, Self::Free];
    fn text(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Add => "add",
            Self::RemoveRange => "remove_range",
            Self::Free => "free",
        }
    }
    fn key(self) -> i8 {
        self as i8
    }
}

/// The search length of two columns, which are null together.
fn length(visited: Option<u32>, touched: Option<u32>) -> Result<Option<SearchLength>, String> {
    match (visited, touched) {
        (Some(visited), Some(touched)) => Ok(Some(SearchLength { visited, touched })),
        (None, None) => Ok(None),
        _ => Err("visited without touched, or the reverse".to_owned()),
    }
}

impl From<&Fault> for FaultRow {
    fn from(fault: &Fault) -> Self {
        Self {
            time: fault.time,
            latency: fault.latency,
            on_cpu: fault.on_cpu,
            cpu: fault.cpu,
            vm: fault.vm.0,
            vcpu: fault.vcpu,
            gpa: fault.gpa.0,
            error_code: fault.error_code,
            class: Named(fault.class),
            as_id: fault.as_id,
            slot: fault.slot,
            last_used: fault.last_used,
            ret: fault.ret,
            visited: fault.length.map(|length| length.visited),
            touched: fault.length.map(|length| length.touched),
            generation: fault.generation,
            ambiguous: fault.ambiguous,
        }
    }
}

impl TryFrom<FaultRow> for Fault {
    type Error = String;
    fn try_from(row: FaultRow) -> Result<Self, String> {
        Ok(Self {
            time: row.time,
            latency: row.latency,
            on_cpu: row.on_cpu,
            cpu: row.cpu,
            vm: VmId(row.vm),
            vcpu: row.vcpu,
            gpa: Gpa(row.gpa),
            error_code: row.error_code,
            class: row.class.0,
            as_id: row.as_id,
            slot: row.slot,
            last_used: row.last_used,
            ret: row.ret,
            length: length(row.visited, row.touched)?,
            generation: row.generation,
            ambiguous: row.ambiguous,
        })
    }
}

impl From<&PleExit> for PleRow {
    fn from(exit: &PleExit) -> Self {
        Self {
            time: exit.time,
            latency: exit.latency,
            on_cpu: exit.on_cpu,
            on_spin: exit.on_spin,
            cpu: exit.cpu,
            vm: exit.vm.0,
            vcpu: exit.vcpu,
            window_before: exit.window.0,
            window_after: exit.window.1,
            yields: exit.yields,
            boosted: exit.boosted,
            declined: exit.declined,
            undercommit: exit.undercommit,
        }
    }
}

impl TryFrom<PleRow> for PleExit {
    type Error = String;
    fn try_from(row: PleRow) -> Result<Self, String> {
        Ok(Self {
            time: row.time,
            latency: row.latency,
            on_cpu: row.on_cpu,
            on_spin: row.on_spin,
            cpu: row.cpu,
            vm: VmId(row.vm),
            vcpu: row.vcpu,
            window: (row.window_before, row.window_after),
            yields: row.yields,
            boosted: row.boosted,
            declined: row.declined,
            undercommit: row.undercommit,
        })
    }
}

impl From<&Translation> for TranslationRow {
    fn from(call: &Translation) -> Self {
        Self {
            time: call.time,
            latency: call.latency,
            on_cpu: call.on_cpu,
            cpu: call.cpu,
            device: call.device.0,
            table: call.table.0,
            worker: call.worker,
            queue: call.queue,
            addr: call.addr,
            len: call.len,
            access: call.access,
            ret: call.ret,
            regions: call.regions,
            visited: call.length.map(|length| length.visited),
            touched: call.length.map(|length| length.touched),
            is_iotlb: call.is_iotlb,
        }
    }
}

impl TryFrom<TranslationRow> for Translation {
    type Error = String;
    fn try_from(row: TranslationRow) -> Result<Self, String> {
        Ok(Self {
            time: row.time,
            latency: row.latency,
            on_cpu: row.on_cpu,
            cpu: row.cpu,
            device: DeviceId(row.device),
            table: TableId(row.table),
            worker: row.worker,
            queue: row.queue,
            addr: row.addr,
            len: row.len,
            access: row.access,
            ret: row.ret,
            regions: row.regions,
            length: length(row.visited, row.touched)?,
            is_iotlb: row.is_iotlb,
        })
    }
}

impl From<&SlotChange> for SlotRow {
    fn from(change: &SlotChange) -> Self {
        let (name, order, black, old_base_gfn) = match change.kind {
            SlotChangeKind::Snapshot { order, black } => (SlotName::Snapshot, Some(order), Some(black), None),
            SlotChangeKind::Create => (SlotName::Create, None, None, None),
            SlotChangeKind::Delete => (SlotName::Delete, None, None, None),
            SlotChangeKind::Move { old_base_gfn } => (SlotName::Move, None, None, Some(old_base_gfn.0)),
            SlotChangeKind::Flags => (SlotName::Flags, None, None, None),
        };
        Self {
            time: change.time,
            vm: change.vm.0,
            as_id: change.as_id,
            generation: change.generation,
            kind: Named(name),
            id: change.slot.id,
            base_gfn: change.slot.base_gfn.0,
            npages: change.slot.npages,
            old_base_gfn,
            order,
            black,
            flags: change.flags,
            hva: change.hva,
        }
    }
}

impl TryFrom<SlotRow> for SlotChange {
    type Error = String;
    fn try_from(row: SlotRow) -> Result<Self, String> {
        let kind = match (row.kind.0, row.order, row.black, row.old_base_gfn) {
            (SlotName::Snapshot, Some(order), Some(black), None) => SlotChangeKind::Snapshot { order, black },
            (SlotName::Create, None, None, None) => SlotChangeKind::Create,
            (SlotName::Delete, None, None, None) => SlotChangeKind::Delete,
            (SlotName::Move, None, None, Some(old)) => SlotChangeKind::Move { old_base_gfn: Gfn(old) },
            (SlotName::Flags, None, None, None) => SlotChangeKind::Flags,
            (name, ..) => return Err(format!("columns that do not go with a {}", name.text())),
        };
        if row.npages == 0 {
            return Err("a slot without pages".to_owned());
        }
        Ok(Self {
            time: row.time,
            vm: VmId(row.vm),
            as_id: row.as_id,
            generation: row.generation,
            kind,
            slot: Memslot { id: row.id, base_gfn: Gfn(row.base_gfn), npages: row.npages },
            flags: row.flags,
            hva: row.hva,
        })
    }
}

impl From<&RegionChange> for RegionRow {
    fn from(change: &RegionChange) -> Self {
        let (name, order, black) = match change.kind {
            RegionChangeKind::Snapshot { order, black } => (RegionName::Snapshot, Some(order), Some(black)),
            RegionChangeKind::Add => (RegionName::Add, None, None),
            RegionChangeKind::RemoveRange => (RegionName::RemoveRange, None, None),
            RegionChangeKind::Free => (RegionName::Free, None, None),
        };
        Self {
            time: change.time,
            table: change.table.0,
            kind: Named(name),
            start: change.region.start,
            last: change.region.last,
            order,
            black,
            hva: change.hva,
            perm: change.perm,
        }
    }
}

impl TryFrom<RegionRow> for RegionChange {
    type Error = String;
    fn try_from(row: RegionRow) -> Result<Self, String> {
        let kind = match (row.kind.0, row.order, row.black) {
            (RegionName::Snapshot, Some(order), Some(black)) => RegionChangeKind::Snapshot { order, black },
            (RegionName::Add, None, None) => RegionChangeKind::Add,
            (RegionName::RemoveRange, None, None) => RegionChangeKind::RemoveRange,
            (RegionName::Free, None, None) => RegionChangeKind::Free,
            (name, ..) => return Err(format!("columns that do not go with a {}", name.text())),
        };
        Ok(Self {
            time: row.time,
            table: TableId(row.table),
            kind,
            region: Region { start: row.start, last: row.last },
            hva: row.hva,
            perm: row.perm,
        })
    }
}
