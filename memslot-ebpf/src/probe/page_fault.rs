//! `kvm_mmu_page_fault(vcpu, cr2_or_gpa, error_code, insn, insn_len)`.
//!
//! The search is followed at entry, before the kernel makes it: the function overwrites the vCPU's
//! last-used slot. A reserved-bit fault means a cached MMIO entry, which the kernel emulates without
//! a search, unless the entry is of an older generation (`check_mmio_spte`): then it goes on to
//! `kvm_tdp_page_fault`, and the search that was followed at entry counts. (Where the entry was zapped in
//! between, the guest only tries again; that too is no search.)

use crate::{
    account::Row,
    flight::{self, Call},
    frame,
    kernel::{Access, Helper, Opaque, Slots, Typed, Unreadable, Walk, id_of, search_slots, setting},
    measured::Measured,
    subject,
    task::{self, FaultCall, now},
    words,
};
use aya_ebpf::{
    EbpfContext,
    helpers::bpf_get_smp_processor_id,
    macros::{fentry, fexit, kprobe, kretprobe},
    programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext},
};
use aya_log_ebpf::warn;
use memslot_common::{
    account::{OTHERS, count, probe},
    event::{Fault, UNKNOWN_LENGTH, class, kind},
    histogram,
    settings::ABSENT,
};

/// `PFERR_RSVD_MASK`
const RESERVED_BIT: u64 = 1 << 3;
const PAGE_SHIFT: u64 = 12;

#[inline(always)]
fn enter<A: Access, C: EbpfContext>(context: &C, frame: u64, vcpu: u64, gpa: u64, error_code: u64) {
    let Some(task) = task::current_or_new() else {
        if let Some(row) = Row::of(probe::PAGE_FAULT, OTHERS) {
            row.add(count::ENTRY);
            row.add(count::START_FULL);
        }
        return;
    };
    let typed = kvm_of::<A>(vcpu);
    let kvm = task.cell.forget(typed);
    subject::meet_vm(&mut task.vm, kvm);
    let subject = task.vm.subject;
    let Some(row) = Row::of(probe::PAGE_FAULT, subject) else { return };
    row.add(count::ENTRY);
    let Some(call) = task.faults.begin(probe::PAGE_FAULT, frame, subject) else { return };
    row.add(count::BEGUN);
    call.wanted = task.vm.wanted;
    call.detail.searched = 0;
    let event = &mut call.detail.event;
    words::clear(event);
    event.kind = kind::FAULT;
    if setting!(sample_every) != 0 {
        // SAFETY: the helper has no arguments and no effect.
        event.cpu = unsafe { bpf_get_smp_processor_id() };
    }
    event.kvm = kvm;
    event.gpa = gpa;
    event.error_code = error_code;
    event.subject = subject as u16;
    match describe::<A>(vcpu, typed, event, &mut task.cell) {
        Ok(Walk::Done) => {}
        Ok(Walk::Truncated) => {
            if row.add(count::WALK_TRUNCATED) == 0 {
                warn!(
                    context,
                    "a slot search was longer than any tree of KVM's should be; its length is left out"
                );
            }
        }
        Ok(Walk::Failed) | Err(Unreadable) => {
            if row.add(count::WALK_FAILED) == 0 {
                warn!(context, "a slot set could not be read; search lengths are left out");
            }
        }
    }
    let off_cpu = task.off_cpu;
    call.detail.event.time = call.start_clock(off_cpu);
}

/// `vcpu->kvm`; 0 where it is not to be had.
#[inline(always)]
pub(super) fn kvm_of<A: Access>(vcpu: u64) -> u64 {
    if setting!(vcpu_kvm) == ABSENT { 0 } else { A::member(vcpu, setting!(vcpu_kvm)).unwrap_or(0) }
}

/// Fills in what the kernel's structures say at entry.
#[inline(always)]
fn describe<A: Access>(
    vcpu: u64,
    kvm: u64,
    event: &mut Fault,
    cell: &mut Opaque<u64>,
) -> Result<Walk, Unreadable> {
    event.slot = -1;
    words::put(&mut event.last_used, -1);
    event.visited = UNKNOWN_LENGTH;
    event.touched = UNKNOWN_LENGTH;
    event.class = class::NO_SLOT;
    event.vcpu = u32::MAX;
    // In the histogram alone nobody asks which vCPU it was.
    if setting!(vcpu_kvm) != ABSENT && (setting!(sample_every) != 0 || setting!(filter_vcpu) != ABSENT) {
        event.vcpu = A::member(vcpu, setting!(vcpu_id))?;
    }
    if setting!(walk_slots) == 0 || setting!(follow) == 0 {
        return Ok(Walk::Done);
    }
    if setting!(vcpu_mmu) != ABSENT {
        let mmu: u64 = A::member(vcpu, setting!(vcpu_mmu))?;
        let role: u32 = A::member(mmu, setting!(mmu_root_role))?;
        event.as_id = u8::from(role & setting!(role_smm_mask) != 0);
        if setting!(role_direct_mask) != 0 && role & setting!(role_direct_mask) == 0 {
            event.class = class::SHADOW;
        }
    }
    let slots = if event.as_id == 0 {
        Slots::of::<A>(kvm, 0)?
    } else {
        // A place that is not the same for all calls: no member that the verifier knows.
        Slots::of::<Helper>(event.kvm, 1)?
    };
    event.generation = slots.generation;
    if event.class == class::SHADOW {
        return Ok(Walk::Done);
    }
    let search = search_slots::<A>(vcpu, &slots, event.gpa >> PAGE_SHIFT, cell);
    if setting!(sample_every) != 0 || setting!(filter_slot) != ABSENT {
        event.slot = id_of(search.slot);
        event.last_used = id_of(search.last_used);
    }
    event.visited = search.length.visited;
    event.touched = search.length.touched;
    if search.slot != 0 {
        event.class = class::RAM;
    }
    Ok(search.walk)
}

#[inline(always)]
fn search_began() {
    if let Some(task) = task::current()
        && let Some(call) = task.faults.innermost()
    {
        call.detail.searched = 1;
    }
}

#[inline(always)]
fn leave(frame: u64, ret: i32) {
    let end = now();
    let Some(task) = task::current() else { return flight::no_start(probe::PAGE_FAULT) };
    let off_cpu = task.off_cpu;
    let Some(call) = task.faults.end(probe::PAGE_FAULT, frame) else { return };
    let Some(row) = Row::of(probe::PAGE_FAULT, call.subject) else { return };
    row.add(count::RETURN);
    row.add(count::FINISHED);
    let Some(took) = call.took(end, off_cpu) else {
        row.add(count::CLOCK_BACK);
        return;
    };
    settle(&mut call.detail);
    let wanted = wanted(call);
    let event = &mut call.detail.event;
    event.latency = took.wall;
    event.on_cpu = if setting!(on_cpu) == 0 { u64::MAX } else { took.on_cpu };
    event.ret = ret;
    let followed = setting!(walk_slots) != 0 && setting!(follow) != 0;
    let measured = Measured {
        probe: probe::PAGE_FAULT,
        subject: call.subject,
        // The codes of the classes are those of the histogram's kinds.
        kind: if followed { u32::from(event.class) } else { histogram::kind::NOT_FOLLOWED },
        visited: histogram::length(event.visited, UNKNOWN_LENGTH),
        took,
        wanted,
    };
    measured.deliver(&row, event);
}

/// Is it one that the filters ask for?
#[inline(always)]
fn wanted(call: &Call<FaultCall>) -> bool {
    let event = &call.detail.event;
    call.wanted != 0
        && (setting!(filter_vcpu) == ABSENT || setting!(filter_vcpu) == event.vcpu)
        && (setting!(filter_slot) == ABSENT || setting!(filter_slot) == event.slot as u32)
        && (setting!(filter_kinds) == 0 || setting!(filter_kinds) >> event.class & 1 != 0)
}

/// A reserved-bit fault that never came to the search made none.
#[inline(always)]
fn settle(call: &mut FaultCall) {
    let event = &mut call.event;
    if event.error_code & RESERVED_BIT != 0 && event.class != class::SHADOW && call.searched == 0 {
        event.class = class::MMIO_CACHED;
        event.slot = -1;
        event.visited = 0;
        event.touched = 0;
    }
}

#[fentry(function = "kvm_mmu_page_fault")]
pub fn page_fault_entry(context: FEntryContext) -> u32 {
    enter::<Typed, _>(
        &context,
        frame::of_trampoline(&context),
        context.arg(0),
        context.arg(1),
        context.arg(2),
    );
    0
}

#[fexit(function = "kvm_mmu_page_fault")]
pub fn page_fault_return(context: FExitContext) -> u32 {
    // The return value stands behind the five arguments.
    leave(frame::of_trampoline(&context), context.arg(5));
    0
}

#[kprobe]
pub fn page_fault_kprobe(context: ProbeContext) -> u32 {
    let (vcpu, gpa, error_code) = (context.arg(0), context.arg(1), context.arg(2));
    let frame = frame::at_entry(&context);
    enter::<Helper, _>(&context, frame, vcpu.unwrap_or(0), gpa.unwrap_or(0), error_code.unwrap_or(0));
    0
}

#[kretprobe]
pub fn page_fault_kretprobe(context: RetProbeContext) -> u32 {
    leave(frame::at_return(&context), context.ret());
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
