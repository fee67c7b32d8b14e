//! What is kept for a task, in its own storage.
//!
//! Task storage follows the task when it moves to another CPU or sleeps, cannot fill up as a hash
//! map can, and goes with the task.

use crate::{
    flight::Calls,
    kernel::{Opaque, RegionWalk},
    subject::Known,
};
use aya_ebpf::{
    bindings::{
        BPF_F_NO_PREALLOC, BPF_LOCAL_STORAGE_GET_F_CREATE, bpf_map_type::BPF_MAP_TYPE_TASK_STORAGE,
        task_struct,
    },
    helpers::generated::{bpf_get_current_task_btf, bpf_ktime_get_ns, bpf_task_storage_get},
    macros::btf_map,
};
use core::ptr;
use memslot_common::event::{Fault, PleExit, Translation};

/// A page fault in flight.
#[repr(C)]
pub struct FaultCall {
    /// The record, filled at entry as far as is known.
    pub event: Fault,
    /// 1 = `kvm_tdp_page_fault` ran inside: the kernel did search.
    pub searched: u64,
}

/// A PLE exit in flight.
#[repr(C)]
pub struct PleCall {
    /// The record, likewise.
    pub event: PleExit,
    /// The `struct kvm_vcpu`.
    pub vcpu: u64,
    /// Entry of `kvm_vcpu_on_spin`, ns; 0 none.
    pub on_spin: u64,
}

/// Everything kept for a task.
#[repr(C)]
pub struct Task {
    pub faults: Calls<FaultCall>,
    pub ple_exits: Calls<PleCall>,
    pub translations: Calls<Translation>,
    pub region_walk: RegionWalk,
    /// The translation that begins, as far as its entry has come.
    pub translation: Translation,
    /// How its search ended.
    pub walked: Opaque<u64>,
    /// Where a pointer loses its type.
    pub cell: Opaque<u64>,
    /// The VM that this task met last.
    pub vm: Known,
    /// The vhost device that this task met last.
    pub device: Known,
    /// The table that this task met last: it is known to the user side.
    pub known_iotlb: u64,
    /// The `struct vhost_virtqueue` that this task met last, its device and its index.
    pub known_queue: u64,
    pub known_device: u64,
    pub queue: u64,
    /// When the task left its CPU, ns; 0 = it is on one.
    pub switched_out: u64,
    /// Time that it has spent off a CPU, ns.
    pub off_cpu: u64,
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

/// # Safety
/// `task` must be a task that the kernel vouches for, and no other program may use its storage meanwhile.
#[inline(always)]
unsafe fn storage(task: *mut task_struct, flags: u32) -> Option<&'static mut Task> {
    let map = (&raw const TASKS).cast_mut().cast();
    // SAFETY: the helper takes the map and the task; the result is null or the task's storage.
    unsafe {
        bpf_task_storage_get(map, task.cast(), ptr::null_mut(), u64::from(flags)).cast::<Task>().as_mut()
    }
}

/// The current task's storage, made where there is none; `None` when the kernel has no memory.
#[inline(always)]
pub fn current_or_new() -> Option<&'static mut Task> {
    // SAFETY: only programs that run in the task itself touch its storage, one after the other.
    unsafe { storage(bpf_get_current_task_btf(), BPF_LOCAL_STORAGE_GET_F_CREATE) }
}

/// The current task's storage, if a probe has run in this task before.
#[inline(always)]
pub fn current() -> Option<&'static mut Task> {
    // SAFETY: likewise.
    unsafe { storage(bpf_get_current_task_btf(), 0) }
}

/// The storage of a task that is being switched out or in, if a probe has run in it before.
///
/// # Safety
/// `task` must be an argument of `sched_switch` as the kernel handed it over: neither task runs then.
#[inline(always)]
pub unsafe fn of_switched(task: *mut task_struct) -> Option<&'static mut Task> {
    // SAFETY: the caller's.
    unsafe { storage(task, 0) }
}

/// `CLOCK_MONOTONIC`, ns.
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: the helper has no arguments and no effect.
    unsafe { bpf_ktime_get_ns() }
}
