//! Which VMs there are, and every change of their slots.
//!
//! `kvm_arch_init_vm`, `kvm_arch_commit_memory_region` and `kvm_arch_destroy_vm` are called across
//! source files, so no compiler inlines them; KVM calls them once for each VM or change, when it is in
//! force.

use crate::{
    account,
    emit::emit,
    kernel::{Slots, read, setting},
    task::{Task, now},
};
use aya_ebpf::{
    bindings::BPF_NOEXIST,
    helpers::bpf_get_current_pid_tgid,
    macros::{fentry, kprobe, map},
    maps::LruHashMap,
    programs::{FEntryContext, ProbeContext},
};
use memslot_common::{
    account::{count, probe},
    event::{SlotChange, Vm, change, kind},
};

/// VMs that the user side knows, by address of the `struct kvm`.
#[map]
static KNOWN_VMS: LruHashMap<u64, u8> = LruHashMap::with_max_entries(4096, 0);

/// Tells the user side of a VM that an event met and that was there before the probes.
#[inline(always)]
pub fn meet(task: &mut Task, kvm: u64) {
    if kvm == 0 || task.known_kvm == kvm {
        return;
    }
    if !is_known(kvm) {
        let pid = read(kvm + u64::from(setting!(kvm_userspace_pid))).unwrap_or(0);
        if !announce(kind::VM_SEEN, kvm, pid) {
            return;
        }
    }
    task.known_kvm = kvm;
}

/// Does the user side know the VM?
#[inline(always)]
pub fn is_known(kvm: u64) -> bool {
    // SAFETY: the value is a byte that is only asked for its presence.
    unsafe { KNOWN_VMS.get(&kvm) }.is_some()
}

/// True when the user side knows of it; else the next event of the VM tries again.
#[inline(always)]
fn announce(kind: u32, kvm: u64, pid: u32) -> bool {
    // Of several vCPUs that meet it at once, one announces it.
    if KNOWN_VMS.insert(&kvm, &1, u64::from(BPF_NOEXIST)).is_err() {
        return is_known(kvm);
    }
    let announced = emit(probe::LAYOUT, &Vm { kind, pid, time: now(), kvm });
    if !announced {
        let _ = KNOWN_VMS.remove(&kvm);
    }
    announced
}

#[inline(always)]
fn created(kvm: u64) {
    // An end that was not seen may have left the address behind.
    let _ = KNOWN_VMS.remove(&kvm);
    // `kvm->userspace_pid` is not set yet; the creator is the owner.
    announce(kind::VM_CREATED, kvm, (bpf_get_current_pid_tgid() >> 32) as u32);
}

#[inline(always)]
fn gone(kvm: u64) {
    // It may never have been met.
    let _ = KNOWN_VMS.remove(&kvm);
    let pid = read(kvm + u64::from(setting!(kvm_userspace_pid))).unwrap_or(0);
    emit(probe::LAYOUT, &Vm { kind: kind::VM_GONE, pid, time: now(), kvm });
}

/// `enum kvm_mr_change` starts with `KVM_MR_CREATE` = 0; its order is ours from `change::CREATE` on.
#[inline(always)]
fn committed(kvm: u64, old: u64, new: u64, mr_change: u32) {
    if setting!(walk_slots) == 0 {
        return;
    }
    account::add(probe::LAYOUT, count::ENTRY);
    let slot = if new == 0 { old } else { new };
    let mut record = SlotChange {
        kind: kind::SLOT_CHANGE,
        change: change::CREATE + (mr_change & 3),
        time: now(),
        kvm,
        ..SlotChange::default()
    };
    if fill(slot, &mut record).is_err() {
        account::add(probe::LAYOUT, count::WALK_FAILED);
        return;
    }
    if old != 0 {
        record.old_base_gfn = read(base_gfn(old)).unwrap_or(0);
    }
    let Ok(slots) = Slots::of(kvm, u64::from(record.as_id & 1)) else {
        account::add(probe::LAYOUT, count::WALK_FAILED);
        return;
    };
    record.generation = slots.generation;
    emit(probe::LAYOUT, &record);
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
    created(context.arg(0));
    0
}

#[kprobe]
pub fn vm_created_kprobe(context: ProbeContext) -> u32 {
    created(context.arg(0).unwrap_or(0));
    0
}

#[fentry(function = "kvm_arch_destroy_vm")]
pub fn vm_gone_entry(context: FEntryContext) -> u32 {
    gone(context.arg(0));
    0
}

#[kprobe]
pub fn vm_gone_kprobe(context: ProbeContext) -> u32 {
    gone(context.arg(0).unwrap_or(0));
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
