//! Which vhost tables there are, and every change of their regions.

use crate::{
    account,
    emit::emit,
    kernel::{read, setting},
    task::now,
};
use aya_ebpf::{
    helpers::bpf_get_current_comm,
    macros::{fentry, fexit, kprobe, map},
    maps::LruHashMap,
    programs::{FEntryContext, FExitContext, ProbeContext},
};
use memslot_common::{
    account::{OTHERS, count, probe},
    event::{RegionChange, Table, Translation, change, kind},
};

/// Tables whose every region was seen being added, by address of the `struct vhost_iotlb`.
#[map]
static KNOWN_TABLES: LruHashMap<u64, u8> = LruHashMap::with_max_entries(16384, 0);

/// Tells the user side which device and worker use the table of the translation in flight, and whether
/// its regions must be asked for because it is older than the probes.
#[inline(always)]
pub fn meet(known: &mut u64, call: &Translation) {
    let iotlb = call.iotlb;
    if iotlb == 0 || *known == iotlb {
        return;
    }
    // SAFETY: the value is a byte that is only asked for its presence.
    let older = unsafe { KNOWN_TABLES.get(&iotlb) }.is_none();
    let name = bpf_get_current_comm().unwrap_or_default();
    let record = Table {
        kind: kind::TABLE_SEEN,
        worker: call.worker,
        time: now(),
        device: call.device,
        iotlb,
        name0: half(&name, 0),
        name1: half(&name, 8),
        regions: call.regions,
        older: u32::from(older),
        subject: call.subject,
        reserved: 0,
    };
    // Where the ring was full, the next call tries again.
    if emit(probe::LAYOUT, OTHERS, &record) {
        *known = iotlb;
        if older {
            learn(iotlb);
        }
    }
}

#[inline(always)]
fn half(name: &[u8; 16], from: usize) -> u64 {
    let mut bytes = [0u8; 8];
    let mut index = 0;
    while index < 8 {
        bytes[index] = name[from + index];
        index += 1;
    }
    u64::from_ne_bytes(bytes)
}

#[inline(always)]
fn learn(iotlb: u64) {
    if KNOWN_TABLES.insert(&iotlb, &1, 0).is_err() {
        account::add(probe::LAYOUT, OTHERS, count::START_FULL);
    }
}

#[inline(always)]
fn changed(change: u32, iotlb: u64, start: u64, last: u64, hva: u64, perm: u32) {
    account::add(probe::LAYOUT, OTHERS, count::ENTRY);
    let record = RegionChange {
        kind: kind::REGION_CHANGE,
        change,
        time: now(),
        iotlb,
        start,
        last,
        hva,
        perm: perm as u8,
        ..RegionChange::default()
    };
    emit(probe::LAYOUT, OTHERS, &record);
}

/// The first region of a table that is not known is not proof of a new table, but `nmaps` is.
#[inline(always)]
fn added(iotlb: u64, start: u64, last: u64, hva: u64, perm: u32, nmaps_after: u32) {
    if setting!(walk_regions) != 0 && nmaps_after == 1 {
        learn(iotlb);
    }
    changed(change::ADD, iotlb, start, last, hva, perm);
}

#[inline(always)]
fn freed(iotlb: u64) {
    // It may never have been met.
    let _ = KNOWN_TABLES.remove(&iotlb);
    changed(change::FREE, iotlb, 0, u64::MAX, 0, 0);
}

#[inline(always)]
fn nmaps(iotlb: u64) -> u32 {
    read(iotlb + u64::from(setting!(iotlb_nmaps))).unwrap_or(u32::MAX)
}

/// At return, because an addition over the table's limit fails.
#[fexit(function = "vhost_iotlb_add_range_ctx")]
pub fn region_added_return(context: FExitContext) -> u32 {
    let ret: i32 = context.arg(6);
    if ret == 0 {
        let iotlb: u64 = context.arg(0);
        added(iotlb, context.arg(1), context.arg(2), context.arg(3), context.arg(4), nmaps(iotlb));
    }
    0
}

/// A kretprobe has no arguments, so an addition is taken to succeed.
#[kprobe]
pub fn region_added_kprobe(context: ProbeContext) -> u32 {
    let iotlb: u64 = context.arg(0).unwrap_or(0);
    added(
        iotlb,
        context.arg(1).unwrap_or(0),
        context.arg(2).unwrap_or(0),
        context.arg(3).unwrap_or(0),
        context.arg(4).unwrap_or(0),
        nmaps(iotlb).saturating_add(1),
    );
    0
}

#[fentry(function = "vhost_iotlb_del_range")]
pub fn region_removed_entry(context: FEntryContext) -> u32 {
    changed(change::REMOVE_RANGE, context.arg(0), context.arg(1), context.arg(2), 0, 0);
    0
}

#[kprobe]
pub fn region_removed_kprobe(context: ProbeContext) -> u32 {
    let (iotlb, start, last) = (context.arg(0), context.arg(1), context.arg(2));
    changed(change::REMOVE_RANGE, iotlb.unwrap_or(0), start.unwrap_or(0), last.unwrap_or(0), 0, 0);
    0
}

#[fentry(function = "vhost_iotlb_free")]
pub fn table_freed_entry(context: FEntryContext) -> u32 {
    freed(context.arg(0));
    0
}

#[kprobe]
pub fn table_freed_kprobe(context: ProbeContext) -> u32 {
    freed(context.arg(0).unwrap_or(0));
    0
}
