//! `kvm_mmu_page_fault(vcpu, cr2_or_gpa, error_code, insn, insn_len)`.
//!
//! The search is followed at entry, before the kernel makes it: the function overwrites the vCPU's
//! last-used slot. A reserved-bit fault means a cached MMIO entry, which the kernel emulates without
//! a search, unless the entry is of an older generation (`check_mmio_spte`): then it goes on to
//! `kvm_tdp_page_fault`, and the search that was followed at entry counts. (Where the entry was zapped in
//! between, the guest only tries again; that too is no search.)

use crate::{
    account,
    emit::emit,
    kernel::{Slots, Unreadable, Walk, read, search_slots, setting},
    task::{self, Task, now},
};
use aya_ebpf::{
    EbpfContext,
    helpers::bpf_get_smp_processor_id,
    macros::{fentry, fexit, kprobe, kretprobe},
    programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext},
};
use aya_log_ebpf::warn;
use memslot_common::{
    account::{count, probe},
    event::{Fault, UNKNOWN_LENGTH, class, kind},
    settings::ABSENT,
};

/// `PFERR_RSVD_MASK`
const RESERVED_BIT: u64 = 1 << 3;
const PAGE_SHIFT: u64 = 12;

#[inline(always)]
fn enter<C: EbpfContext>(context: &C, vcpu: u64, gpa: u64, error_code: u64) {
    account::add(probe::PAGE_FAULT, count::ENTRY);
    let Some(task) = task::current_or_new() else {
        account::add(probe::PAGE_FAULT, count::START_FULL);
        return;
    };
    task.fault.begin(probe::PAGE_FAULT);
    task.searched = 0;
    let event = &mut task.fault.event;
    event.kind = kind::FAULT;
    // SAFETY: the helper has no arguments and no effect.
    event.cpu = unsafe { bpf_get_smp_processor_id() };
    event.gpa = gpa;
    event.error_code = error_code;
    event.reserved = 0;
    match describe(vcpu, event) {
        Ok(Walk::Done) => {}
        Ok(Walk::Truncated) => {
            if account::add(probe::PAGE_FAULT, count::WALK_TRUNCATED) == 0 {
                warn!(
                    context,
                    "a slot search was longer than any tree of KVM's should be; its length is left out"
                );
            }
        }
        Ok(Walk::Failed) | Err(Unreadable) => {
            if account::add(probe::PAGE_FAULT, count::WALK_FAILED) == 0 {
                warn!(context, "a slot set could not be read; search lengths are left out");
            }
        }
    }
    let kvm = event.kvm;
    super::slots::meet(task, kvm);
    let start = task.fault.start_clock();
    task.fault.event.time = start;
}

/// Fills in what the kernel's structures say at entry.
#[inline(always)]
fn describe(vcpu: u64, event: &mut Fault) -> Result<Walk, Unreadable> {
    event.slot = -1;
    event.last_used = -1;
    event.visited = UNKNOWN_LENGTH;
    event.touched = UNKNOWN_LENGTH;
    event.class = class::NO_SLOT;
    event.generation = 0;
    event.as_id = 0;
    event.kvm = 0;
    event.vcpu = u32::MAX;
    if setting!(vcpu_kvm) != ABSENT {
        event.kvm = read(vcpu + u64::from(setting!(vcpu_kvm)))?;
        event.vcpu = read(vcpu + u64::from(setting!(vcpu_id)))?;
    }
    if setting!(walk_slots) == 0 {
        return Ok(Walk::Done);
    }
    if setting!(vcpu_mmu) != ABSENT {
        let mmu: u64 = read(vcpu + u64::from(setting!(vcpu_mmu)))?;
        let role: u32 = read(mmu + u64::from(setting!(mmu_root_role)))?;
        event.as_id = u8::from(role & setting!(role_smm_mask) != 0);
        if setting!(role_direct_mask) != 0 && role & setting!(role_direct_mask) == 0 {
            event.class = class::SHADOW;
        }
    }
    let slots = Slots::of(event.kvm, u64::from(event.as_id))?;
    event.generation = slots.generation;
    if event.class == class::SHADOW {
        return Ok(Walk::Done);
    }
    let search = search_slots(vcpu, &slots, event.gpa >> PAGE_SHIFT);
    event.slot = search.slot;
    event.last_used = search.last_used;
    event.visited = search.length.visited;
    event.touched = search.length.touched;
    if search.slot >= 0 {
        event.class = class::RAM;
    }
    Ok(search.walk)
}

#[inline(always)]
fn search_began() {
    if let Some(task) = task::current() {
        task.searched = 1;
    }
}

#[inline(always)]
fn leave(ret: i32) {
    let end = now();
    account::add(probe::PAGE_FAULT, count::RETURN);
    let Some(task) = task::current() else {
        account::add(probe::PAGE_FAULT, count::NO_START);
        return;
    };
    let Some(latency) = task.fault.finish(probe::PAGE_FAULT, end) else { return };
    settle(task);
    task.fault.event.latency = latency;
    task.fault.event.ret = ret;
    emit(probe::PAGE_FAULT, &task.fault.event);
}

/// A reserved-bit fault that never came to the search made none.
#[inline(always)]
fn settle(task: &mut Task) {
    let event = &mut task.fault.event;
    if event.error_code & RESERVED_BIT != 0 && event.class != class::SHADOW && task.searched == 0 {
        event.class = class::MMIO_CACHED;
        event.slot = -1;
        event.visited = 0;
        event.touched = 0;
    }
}

#[fentry(function = "kvm_mmu_page_fault")]
pub fn page_fault_entry(context: FEntryContext) -> u32 {
    enter(&context, context.arg(0), context.arg(1), context.arg(2));
    0
}

#[fexit(function = "kvm_mmu_page_fault")]
pub fn page_fault_return(context: FExitContext) -> u32 {
    // The return value stands behind the five arguments.
    leave(context.arg(5));
    0
}

#[kprobe]
pub fn page_fault_kprobe(context: ProbeContext) -> u32 {
    let (vcpu, gpa, error_code) = (context.arg(0), context.arg(1), context.arg(2));
    enter(&context, vcpu.unwrap_or(0), gpa.unwrap_or(0), error_code.unwrap_or(0));
    0
}

#[kretprobe]
pub fn page_fault_kretprobe(context: RetProbeContext) -> u32 {
    leave(context.ret());
    0
}

#[fentry(function = "kvm_tdp_page_fault")]
pub fn tdp_fault_entry(_context: FEntryContext) -> u32 {
    search_began();
    0
}

#[kprobe]
pub fn tdp_fault_kprobe(_context: ProbeContext) -> u32 {
    search_began();
    0
}
