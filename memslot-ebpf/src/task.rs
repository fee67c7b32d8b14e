//! What a probe's entry leaves for its return, in the storage of the task.
//!
//! Task storage follows the task when it moves to another CPU or sleeps, cannot fill up as a hash
//! map can, and goes with the task.

use crate::{account, kernel::RegionWalk};
use aya_ebpf::{
    bindings::{BPF_F_NO_PREALLOC, BPF_LOCAL_STORAGE_GET_F_CREATE, bpf_map_type::BPF_MAP_TYPE_TASK_STORAGE},
    helpers::generated::{bpf_get_current_task_btf, bpf_ktime_get_ns, bpf_task_storage_get},
    macros::btf_map,
};
use core::ptr;
use memslot_common::{
    account::count,
    event::{Fault, PleExit, Translation},
};

/// One call in flight. All zero is a call that has not begun.
#[repr(C)]
pub struct Call<T: 'static> {
    /// The record, filled at entry as far as is known.
    pub event: T,
    /// Time of entry, ns.
    start: u64,
    /// 1 = in flight.
    active: u64,
}

/// Everything kept for a task.
#[repr(C)]
pub struct Task {
    pub fault: Call<Fault>,
    pub ple: Call<PleExit>,
    pub translate: Call<Translation>,
    pub region_walk: RegionWalk,
    /// The `struct kvm_vcpu` of the PLE exit in flight.
    pub vcpu: u64,
    /// Entry of `kvm_vcpu_on_spin`, ns; 0 none.
    pub on_spin: u64,
    /// The VM that this task met last: it is known to the user side.
    pub known_kvm: u64,
    /// The table that this task met last, likewise.
    pub known_iotlb: u64,
    /// 1 = `kvm_tdp_page_fault` ran inside the fault: the kernel did search.
    pub searched: u64,
}

/// BTF definition of a task storage map, which aya-ebpf does not have yet.
#[repr(C)]
struct TaskStorage<T: 'static> {
    r#type: *const [i32; BPF_MAP_TYPE_TASK_STORAGE as usize],
    key: *const i32,
    value: *const T,
    max_entries: *const [i32; 0],
    map_flags: *const [i32; BPF_F_NO_PREALLOC as usize],
}

// SAFETY: the pointers only carry types to the loader; nothing reads them.
unsafe impl<T> Sync for TaskStorage<T> {}

#[btf_map]
static TASKS: TaskStorage<Task> = TaskStorage {
    r#type: ptr::null(),
    key: ptr::null(),
    value: ptr::null(),
    max_entries: ptr::null(),
    map_flags: ptr::null(),
};

#[inline(always)]
fn storage(flags: u32) -> Option<&'static mut Task> {
    // SAFETY: the helpers take the map and the current task; the result is null or this task's own
    // storage, which only programs that run in the task itself touch, one after the other.
    unsafe {
        let task = bpf_get_current_task_btf();
        let map = (&raw const TASKS).cast_mut().cast();
        bpf_task_storage_get(map, task.cast(), ptr::null_mut(), u64::from(flags)).cast::<Task>().as_mut()
    }
}

/// The current task's storage, made where there is none; `None` when the kernel has no memory.
#[inline(always)]
pub fn current_or_new() -> Option<&'static mut Task> {
    storage(BPF_LOCAL_STORAGE_GET_F_CREATE)
}

/// The current task's storage, if a probe has run in this task before.
#[inline(always)]
pub fn current() -> Option<&'static mut Task> {
    storage(0)
}

/// `CLOCK_MONOTONIC`, ns.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: the helper has no arguments and no effect.
    unsafe { bpf_ktime_get_ns() }
}

impl<T> Call<T> {
    /// Begins a call.
    ///
    /// None of the measured functions calls itself, so a call that is still on record is one whose return
    /// never came: a kretprobe that the kernel had no instance for, or another tool that attached to the
    /// function while it ran.
    #[inline(always)]
    pub fn begin(&mut self, probe: u32) {
        if self.active != 0 {
            account::add(probe, count::RETURN_LOST);
        }
        self.active = 1;
    }

    /// Starts the clock: the last thing that an entry does.
    #[inline(always)]
    pub fn start_clock(&mut self) -> u64 {
        self.start = now();
        self.start
    }

    /// Is a call in flight?
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        self.active != 0
    }

    /// Ends a call that returned at `end`; the latency in ns, or `None` with the reason counted.
    #[inline(always)]
    pub fn finish(&mut self, probe: u32, end: u64) -> Option<u64> {
        if self.active == 0 {
            account::add(probe, count::NO_START);
            return None;
        }
        self.active = 0;
        if end < self.start {
            account::add(probe, count::CLOCK_BACK);
            return None;
        }
        Some(end - self.start)
    }
}
