//! What befalls a task while a call is in flight: it leaves its CPU, or ends.

use crate::task;
use aya_ebpf::{
    bindings::task_struct,
    macros::{btf_tracepoint, raw_tracepoint},
    programs::{BtfTracePointContext, RawTracePointContext},
};
use memslot_common::account::probe;

/// `sched_switch(preempt, prev, next, …)`: notes when a task left its CPU and how long it was away.
#[btf_tracepoint(function = "sched_switch")]
pub fn task_switched(context: BtfTracePointContext) -> i32 {
    let now = task::now();
    let (prev, next) = (context.arg::<*mut task_struct>(1), context.arg::<*mut task_struct>(2));
    // SAFETY: the tracepoint's own arguments.
    if let Some(task) = unsafe { task::of_switched(prev) } {
        task.switched_out = now;
    }
    // SAFETY: likewise.
    if let Some(task) = unsafe { task::of_switched(next) }
        && task.switched_out != 0
    {
        task.off_cpu = task.off_cpu.wrapping_add(now.saturating_sub(task.switched_out));
        task.switched_out = 0;
    }
    0
}

/// `sched_process_exit(task)`: runs in the task that ends.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn task_ended(_context: RawTracePointContext) -> i32 {
    if let Some(task) = task::current() {
        task.faults.gone(probe::PAGE_FAULT);
        task.ple_exits.gone(probe::PLE);
        task.translations.gone(probe::TRANSLATE);
    }
    0
}
