//! A PLE exit: `pause_interception(vcpu)` on AMD, `handle_pause(vcpu)` on Intel; inside it
//! `kvm_vcpu_on_spin`, and inside that `yield_to` for each candidate.

use crate::{
    account,
    emit::emit,
    kernel::{Unreadable, read, setting},
    task::{self, now},
};
use aya_ebpf::{
    helpers::bpf_get_smp_processor_id,
    macros::{fentry, fexit, kprobe, kretprobe},
    programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext},
};
use memslot_common::{
    account::{count, probe},
    event::{PleExit, kind},
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
fn enter(vcpu: u64) {
    account::add(probe::PLE, count::ENTRY);
    let Some(task) = task::current_or_new() else {
        account::add(probe::PLE, count::START_FULL);
        return;
    };
    task.ple.begin(probe::PLE);
    task.on_spin = 0;
    task.vcpu = vcpu;
    let event = &mut task.ple.event;
    event.kind = kind::PLE_EXIT;
    // SAFETY: the helper has no arguments and no effect.
    event.cpu = unsafe { bpf_get_smp_processor_id() };
    event.on_spin = u64::MAX;
    event.yields = 0;
    event.boosted = 0;
    event.declined = 0;
    event.undercommit = 0;
    event.reserved = 0;
    event.kvm = 0;
    event.vcpu = u32::MAX;
    event.window_before = window(vcpu).unwrap_or(0);
    if setting!(vcpu_kvm) != ABSENT {
        event.kvm = read(vcpu + u64::from(setting!(vcpu_kvm))).unwrap_or(0);
        event.vcpu = read(vcpu + u64::from(setting!(vcpu_id))).unwrap_or(u32::MAX);
    }
    let kvm = event.kvm;
    super::slots::meet(task, kvm);
    let start = task.ple.start_clock();
    task.ple.event.time = start;
}

#[inline(always)]
fn leave() {
    let end = now();
    account::add(probe::PLE, count::RETURN);
    let Some(task) = task::current() else {
        account::add(probe::PLE, count::NO_START);
        return;
    };
    let Some(latency) = task.ple.finish(probe::PLE, end) else { return };
    task.ple.event.latency = latency;
    if task.ple.event.on_spin == u64::MAX {
        task.ple.event.window_after = window(task.vcpu).unwrap_or(0);
    }
    emit(probe::PLE, &task.ple.event);
}

/// `kvm_vcpu_on_spin` is called for a hypercall too; only the call inside a PLE exit is timed.
#[inline(always)]
fn enter_on_spin() {
    account::add(probe::ON_SPIN, count::ENTRY);
    if let Some(task) = task::current()
        && task.ple.is_active()
    {
        // The handler has grown the window; when it returns, the vCPU may have been scheduled out and in,
        // which shrinks it.
        task.ple.event.window_after = window(task.vcpu).unwrap_or(0);
        task.on_spin = now();
    }
}

#[inline(always)]
fn leave_on_spin() {
    let end = now();
    account::add(probe::ON_SPIN, count::RETURN);
    if let Some(task) = task::current()
        && task.ple.is_active()
        && task.on_spin != 0
    {
        if end < task.on_spin {
            account::add(probe::ON_SPIN, count::CLOCK_BACK);
        } else {
            task.ple.event.on_spin = end - task.on_spin;
        }
        task.on_spin = 0;
    }
}

/// The PLE exit in flight, if `kvm_vcpu_on_spin` runs inside it: `yield_to` serves others than KVM's PLE
/// handler too, and theirs are not counted.
#[inline(always)]
fn spinning() -> Option<&'static mut PleExit> {
    let task = task::current()?;
    if task.on_spin == 0 { None } else { Some(&mut task.ple.event) }
}

/// Tried and outcome are counted apart: where a kretprobe is missed, they differ.
#[inline(always)]
fn enter_yield() {
    if let Some(event) = spinning() {
        account::add(probe::YIELD, count::ENTRY);
        event.yields += 1;
    }
}

#[inline(always)]
fn leave_yield(ret: i32) {
    let Some(event) = spinning() else { return };
    account::add(probe::YIELD, count::RETURN);
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
    enter(context.arg(0));
    0
}

#[fexit(function = "pause_interception")]
pub fn ple_return(_context: FExitContext) -> u32 {
    leave();
    0
}

#[kprobe]
pub fn ple_kprobe(context: ProbeContext) -> u32 {
    enter(context.arg(0).unwrap_or(0));
    0
}

#[kretprobe]
pub fn ple_kretprobe(_context: RetProbeContext) -> u32 {
    leave();
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
