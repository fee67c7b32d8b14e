//! A PLE exit: `pause_interception(vcpu)` on AMD, `handle_pause(vcpu)` on Intel; inside it
//! `kvm_vcpu_on_spin`, and inside that `yield_to` for each candidate.

use crate::{
    account::Row,
    flight::{self, Call},
    frame,
    kernel::{Access, Helper, Typed, Unreadable, read, setting},
    measured::Measured,
    subject,
    task::{self, PleCall, now},
    words,
};
use aya_ebpf::{
    helpers::bpf_get_smp_processor_id,
    macros::{fentry, fexit, kprobe, kretprobe},
    programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext},
};
use memslot_common::{
    account::{OTHERS, count, probe},
    event::{PleExit, kind},
    histogram,
    settings::ABSENT,
};

/// `-ESRCH`: both run queues hold one task.
const UNDERCOMMIT: i32 = -3;

/// The window in force: `vmcb.control.pause_filter_count` on AMD, `vcpu_vmx.ple_window` on Intel.
/// The `kvm_vcpu` is the first member of both vendors' structures.
#[inline(always)]
fn window(vcpu: u64) -> Result<u32, Unreadable> {
    if setting!(svm_vmcb) != ABSENT {
        let vmcb: u64 = read(vcpu + u64::from(setting!(svm_vmcb)))?;
        return Ok(u32::from(read::<u16>(vmcb + u64::from(setting!(vmcb_pause_filter_count)))?));
    }
    if setting!(vmx_ple_window) != ABSENT {
        return read(vcpu + u64::from(setting!(vmx_ple_window)));
    }
    Err(Unreadable)
}

#[inline(always)]
fn enter<A: Access>(frame: u64, vcpu: u64) {
    let Some(task) = task::current_or_new() else {
        if let Some(row) = Row::of(probe::PLE, OTHERS) {
            row.add(count::ENTRY);
            row.add(count::START_FULL);
        }
        return;
    };
    let kvm = task.cell.forget(super::page_fault::kvm_of::<A>(vcpu));
    subject::meet_vm(&mut task.vm, kvm);
    let subject = task.vm.subject;
    let Some(row) = Row::of(probe::PLE, subject) else { return };
    row.add(count::ENTRY);
    let Some(call) = task.ple_exits.begin(probe::PLE, frame, subject) else { return };
    row.add(count::BEGUN);
    call.wanted = task.vm.wanted;
    call.detail.on_spin = 0;
    call.detail.vcpu = vcpu;
    let event = &mut call.detail.event;
    words::clear(event);
    event.kind = kind::PLE_EXIT;
    if setting!(sample_every) != 0 {
        // SAFETY: the helper has no arguments and no effect.
        event.cpu = unsafe { bpf_get_smp_processor_id() };
    }
    event.on_spin = u64::MAX;
    event.kvm = kvm;
    event.subject = subject;
    event.vcpu = u32::MAX;
    if setting!(sample_every) != 0 {
        event.window_before = window(vcpu).unwrap_or(0);
    }
    if setting!(vcpu_kvm) != ABSENT && (setting!(sample_every) != 0 || setting!(filter_vcpu) != ABSENT) {
        event.vcpu = A::member(vcpu, setting!(vcpu_id)).unwrap_or(u32::MAX);
    }
    let off_cpu = task.off_cpu;
    call.detail.event.time = call.start_clock(off_cpu);
}

#[inline(always)]
fn leave(frame: u64) {
    let end = now();
    let Some(task) = task::current() else { return flight::no_start(probe::PLE) };
    let off_cpu = task.off_cpu;
    let Some(call) = task.ple_exits.end(probe::PLE, frame) else { return };
    let Some(row) = Row::of(probe::PLE, call.subject) else { return };
    row.add(count::RETURN);
    row.add(count::FINISHED);
    let Some(took) = call.took(end, off_cpu) else {
        row.add(count::CLOCK_BACK);
        return;
    };
    let wanted = wanted(call);
    let vcpu = call.detail.vcpu;
    let event = &mut call.detail.event;
    event.latency = took.wall;
    event.on_cpu = if setting!(on_cpu) == 0 { u64::MAX } else { took.on_cpu };
    if event.on_spin == u64::MAX && setting!(sample_every) != 0 {
        event.window_after = window(vcpu).unwrap_or(0);
    }
    let measured = Measured {
        probe: probe::PLE,
        subject: call.subject,
        kind: outcome(event),
        visited: histogram::NO_LENGTH,
        took,
        wanted,
    };
    measured.deliver(&row, event);
}

/// Is it one that the filters ask for?
#[inline(always)]
fn wanted(call: &Call<PleCall>) -> bool {
    let vcpu = setting!(filter_vcpu);
    call.wanted != 0 && (vcpu == ABSENT || vcpu == call.detail.event.vcpu)
}

/// The best outcome of its yields.
#[inline(always)]
fn outcome(event: &PleExit) -> u32 {
    if event.boosted > 0 {
        histogram::kind::BOOSTED
    } else if event.declined > 0 {
        histogram::kind::DECLINED
    } else if event.undercommit > 0 {
        histogram::kind::UNDERCOMMIT
    } else {
        histogram::kind::NO_YIELD
    }
}

/// The PLE exit in flight.
#[inline(always)]
fn in_flight() -> Option<&'static mut PleCall> {
    task::current()?.ple_exits.innermost().map(|call| &mut call.detail)
}

/// `kvm_vcpu_on_spin` is called for a hypercall too; only the call inside a PLE exit is timed.
#[inline(always)]
fn enter_on_spin() {
    if let Some(call) = in_flight() {
        // The handler has grown the window; when it returns, the vCPU may have been scheduled out and in,
        // which shrinks it.
        if setting!(sample_every) != 0 {
            call.event.window_after = window(call.vcpu).unwrap_or(0);
        }
        call.on_spin = now();
    }
}

#[inline(always)]
fn leave_on_spin() {
    let end = now();
    if let Some(call) = in_flight()
        && call.on_spin != 0
    {
        if end >= call.on_spin {
            call.event.on_spin = end - call.on_spin;
        }
        call.on_spin = 0;
    }
}

/// The PLE exit in flight, if `kvm_vcpu_on_spin` runs inside it: `yield_to` serves others than KVM's PLE
/// handler too, and theirs are not counted.
#[inline(always)]
fn spinning() -> Option<&'static mut PleExit> {
    let call = in_flight()?;
    if call.on_spin == 0 { None } else { Some(&mut call.event) }
}

/// Tried and outcome are counted apart: where a kretprobe is missed, they differ.
#[inline(always)]
fn enter_yield() {
    if let Some(event) = spinning() {
        event.yields += 1;
    }
}

#[inline(always)]
fn leave_yield(ret: i32) {
    let Some(event) = spinning() else { return };
    if ret > 0 {
        event.boosted += 1;
    } else if ret == UNDERCOMMIT {
        event.undercommit += 1;
    } else {
        event.declined += 1;
    }
}

/// The user side attaches it to the vendor's handler.
#[fentry(function = "pause_interception")]
pub fn ple_entry(context: FEntryContext) -> u32 {
    enter::<Typed>(frame::of_trampoline(&context), context.arg(0));
    0
}

#[fexit(function = "pause_interception")]
pub fn ple_return(context: FExitContext) -> u32 {
    leave(frame::of_trampoline(&context));
    0
}

#[kprobe]
pub fn ple_kprobe(context: ProbeContext) -> u32 {
    enter::<Helper>(frame::at_entry(&context), context.arg(0).unwrap_or(0));
    0
}

#[kretprobe]
pub fn ple_kretprobe(context: RetProbeContext) -> u32 {
    leave(frame::at_return(&context));
    0
}

#[fentry(function = "kvm_vcpu_on_spin")]
pub fn on_spin_entry(_context: FEntryContext) -> u32 {
    enter_on_spin();
    0
}

#[fexit(function = "kvm_vcpu_on_spin")]
pub fn on_spin_return(_context: FExitContext) -> u32 {
    leave_on_spin();
    0
}

#[kprobe]
pub fn on_spin_kprobe(_context: ProbeContext) -> u32 {
    enter_on_spin();
    0
}

#[kretprobe]
pub fn on_spin_kretprobe(_context: RetProbeContext) -> u32 {
    leave_on_spin();
    0
}

#[fentry(function = "yield_to")]
pub fn yield_entry(_context: FEntryContext) -> u32 {
    enter_yield();
    0
}

#[kprobe]
pub fn yield_kprobe(_context: ProbeContext) -> u32 {
    enter_yield();
    0
}

#[fexit(function = "yield_to")]
pub fn yield_return(context: FExitContext) -> u32 {
    // The return value stands behind the two arguments.
    leave_yield(context.arg(2));
    0
}

#[kretprobe]
pub fn yield_kretprobe(context: RetProbeContext) -> u32 {
    leave_yield(context.ret());
    0
}
