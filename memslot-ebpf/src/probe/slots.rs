//! Which VMs there are, and every change of their slots.
//!
//! `kvm_arch_init_vm`, `kvm_arch_commit_memory_region` and `kvm_arch_destroy_vm` are called across
//! source files, so no compiler inlines them; KVM calls them once for each VM or change, when it is in
//! force.

use crate::{
    account,
    emit::emit,
    kernel::{Helper, Slots, read, setting},
    subject::{vm_created, vm_gone},
    task::now,
};
use aya_ebpf::{
    macros::{fentry, kprobe},
    programs::{FEntryContext, ProbeContext},
};
use memslot_common::{
    account::{OTHERS, count, probe},
    event::{SlotChange, change, kind},
};

/// `enum kvm_mr_change` starts with `KVM_MR_CREATE` = 0; its order is ours from `change::CREATE` on.
#[inline(always)]
fn committed(kvm: u64, old: u64, new: u64, mr_change: u32) {
    if setting!(walk_slots) == 0 {
        return;
    }
    account::add(probe::LAYOUT, OTHERS, count::ENTRY);
    let slot = if new == 0 { old } else { new };
    let mut record = SlotChange {
        kind: kind::SLOT_CHANGE,
        change: change::CREATE + (mr_change & 3),
        time: now(),
        kvm,
        ..SlotChange::default()
    };
    if fill(slot, &mut record).is_err() {
        account::add(probe::LAYOUT, OTHERS, count::WALK_FAILED);
        return;
    }
    if old != 0 {
        record.old_base_gfn = read(base_gfn(old)).unwrap_or(0);
    }
    let Ok(slots) = Slots::of::<Helper>(kvm, u32::from(record.as_id & 1)) else {
        account::add(probe::LAYOUT, OTHERS, count::WALK_FAILED);
        return;
    };
    record.generation = slots.generation;
    emit(probe::LAYOUT, OTHERS, &record);
}

#[inline(always)]
fn base_gfn(slot: u64) -> u64 {
    slot + u64::from(setting!(slot_gfn_node))
        + core::mem::offset_of!(crate::kernel::SlotNode, base_gfn) as u64
}

/// Copies a slot's members into a record.
#[inline(always)]
pub fn fill(slot: u64, record: &mut SlotChange) -> Result<(), crate::kernel::Unreadable> {
    let [base, npages] = read::<[u64; 2]>(base_gfn(slot))?;
    record.base_gfn = base;
    record.npages = npages;
    record.id = i32::from(read::<i16>(slot + u64::from(setting!(slot_id)))?);
    record.as_id = read(slot + u64::from(setting!(slot_as_id)))?;
    record.flags = read(slot + u64::from(setting!(slot_flags)))?;
    record.hva = read(slot + u64::from(setting!(slot_hva)))?;
    Ok(())
}

#[fentry(function = "kvm_arch_init_vm")]
pub fn vm_created_entry(context: FEntryContext) -> u32 {
    vm_created(context.arg(0));
    0
}

#[kprobe]
pub fn vm_created_kprobe(context: ProbeContext) -> u32 {
    vm_created(context.arg(0).unwrap_or(0));
    0
}

#[fentry(function = "kvm_arch_destroy_vm")]
pub fn vm_gone_entry(context: FEntryContext) -> u32 {
    vm_gone(context.arg(0));
    0
}

#[kprobe]
pub fn vm_gone_kprobe(context: ProbeContext) -> u32 {
    vm_gone(context.arg(0).unwrap_or(0));
    0
}

#[fentry(function = "kvm_arch_commit_memory_region")]
pub fn slot_change_entry(context: FEntryContext) -> u32 {
    committed(context.arg(0), context.arg(1), context.arg(2), context.arg(3));
    0
}

#[kprobe]
pub fn slot_change_kprobe(context: ProbeContext) -> u32 {
    committed(
        context.arg(0).unwrap_or(0),
        context.arg(1).unwrap_or(0),
        context.arg(2).unwrap_or(0),
        context.arg(3).unwrap_or(0),
    );
    0
}
