//! VMs and vhost devices by small numbers, for the keys of counters and histograms, and whether they are
//! among those that were asked for.
//!
//! A number is given once: what is allocated at the address of one that has gone gets another.

use crate::{
    emit::emit,
    kernel::{read, setting},
    task::now,
};
use aya_ebpf::{
    bindings::BPF_NOEXIST,
    helpers::{bpf_get_current_comm, bpf_get_current_pid_tgid},
    macros::map,
    maps::{Array, HashMap, LruHashMap, Queue},
};
use memslot_common::{
    account::{OTHERS, SUBJECTS, probe},
    event::{Vm, kind},
    settings::ABSENT,
};

/// Numbers that are still free; the user side fills it. (A queue gives each to one CPU alone.)
#[map]
static FREE_SUBJECTS: Queue<u32> = Queue::with_max_entries(SUBJECTS, 0);

/// VMs by address of the `struct kvm`: their number and flags.
#[map]
static KNOWN_VMS: LruHashMap<u64, u32> = LruHashMap::with_max_entries(4096, 0);

/// Devices by address of the `struct vhost_dev`: likewise.
#[map]
static KNOWN_DEVICES: LruHashMap<u64, u32> = LruHashMap::with_max_entries(4096, 0);

/// Threads of the process that was asked for; vhost's workers bear the name of one.
#[map]
static FILTER_THREADS: HashMap<u32, u8> = HashMap::with_max_entries(65_536, 0);

/// Counts the VMs that came and went: what a task has noted of one holds as long as it stands still.
#[map]
static EPOCH: Array<u64> = Array::with_max_entries(1, 0);

/// The user side has not been told yet: the ring was full.
const UNANNOUNCED: u32 = 1 << 31;
/// It is not among those that were asked for.
const UNWANTED: u32 = 1 << 30;

/// What a task has noted of a VM or device.
#[repr(C)]
pub struct Known {
    object: u64,
    epoch: u64,
    pub subject: u32,
    /// 1 = it is among those that were asked for.
    pub wanted: u32,
}

impl Known {
    #[inline(always)]
    fn note(&mut self, object: u64, epoch: u64, value: u32) {
        self.object = object;
        self.epoch = epoch;
        self.subject = value & (SUBJECTS - 1);
        self.wanted = u32::from(value & UNWANTED == 0);
    }
}

#[inline(always)]
fn epoch() -> u64 {
    EPOCH.get(0).copied().unwrap_or(0)
}

#[inline(always)]
fn next_epoch() {
    if let Some(epoch) = EPOCH.get_ptr_mut(0) {
        // SAFETY: a live map value. Two CPUs that come at once may move it on by one only, which is enough.
        unsafe { *epoch += 1 };
    }
}

#[inline(always)]
fn process() -> u32 {
    (bpf_get_current_pid_tgid() >> 32) as u32
}

#[inline(always)]
fn flag(wanted: bool) -> u32 {
    if wanted { 0 } else { UNWANTED }
}

/// A number that no VM or device has had.
#[inline(always)]
fn number() -> u32 {
    match FREE_SUBJECTS.pop() {
        Ok(Some(subject)) => subject & (SUBJECTS - 1),
        _ => OTHERS,
    }
}

/// Notes the VM of the task's call; tells the user side of one that was there before the probes.
#[inline(always)]
pub fn meet_vm(known: &mut Known, kvm: u64) {
    let epoch = epoch();
    if known.object == kvm && known.epoch == epoch && kvm != 0 {
        return;
    }
    if kvm == 0 {
        known.note(0, epoch, OTHERS | flag(setting!(filter_pid) == 0));
        return;
    }
    let value = match vm(kvm) {
        Some(value) if value & UNANNOUNCED == 0 => value,
        Some(value) => announce(kind::VM_SEEN, kvm, value),
        None => {
            // vCPUs are threads of the process that owns the VM.
            let wanted = setting!(filter_pid) == 0 || process() == setting!(filter_pid);
            let value = number() | flag(wanted) | UNANNOUNCED;
            // Of several vCPUs that meet it at once, one announces it.
            if KNOWN_VMS.insert(&kvm, &value, u64::from(BPF_NOEXIST)).is_ok() {
                announce(kind::VM_SEEN, kvm, value)
            } else {
                vm(kvm).unwrap_or(UNANNOUNCED)
            }
        }
    };
    if value & UNANNOUNCED == 0 {
        known.note(kvm, epoch, value);
    } else {
        // The next call tries again.
        known.note(0, epoch, value);
    }
}

#[inline(always)]
fn vm(kvm: u64) -> Option<u32> {
    // SAFETY: the value is a word that is copied at once.
    unsafe { KNOWN_VMS.get(&kvm) }.copied()
}

/// Does the user side know the VM?
#[inline(always)]
pub fn is_known(kvm: u64) -> bool {
    vm(kvm).is_some_and(|value| value & UNANNOUNCED == 0)
}

/// Tells the user side of a VM; what is known of it then.
#[inline(always)]
fn announce(kind: u32, kvm: u64, value: u32) -> u32 {
    let owner = if setting!(kvm_userspace_pid) == ABSENT || kind == kind::VM_CREATED {
        // `kvm->userspace_pid` is not set yet; the creator is the owner.
        process()
    } else {
        read(kvm + u64::from(setting!(kvm_userspace_pid))).unwrap_or(0)
    };
    let subject = value & (SUBJECTS - 1);
    if !emit(probe::LAYOUT, OTHERS, &Vm { kind, pid: owner, time: now(), kvm, subject, reserved: 0 }) {
        return value;
    }
    let announced = value & !UNANNOUNCED;
    // Only the memory of an LRU map that is full could keep it out; then it is announced twice.
    let _ = KNOWN_VMS.insert(&kvm, &announced, 0);
    announced
}

/// A VM was created.
#[inline(always)]
pub fn vm_created(kvm: u64) {
    next_epoch();
    let wanted = setting!(filter_pid) == 0 || process() == setting!(filter_pid);
    let value = number() | flag(wanted) | UNANNOUNCED;
    // An end that was not seen may have left the address behind.
    let _ = KNOWN_VMS.insert(&kvm, &value, 0);
    announce(kind::VM_CREATED, kvm, value);
}

/// A VM is being destroyed.
#[inline(always)]
pub fn vm_gone(kvm: u64) {
    let subject = vm(kvm).unwrap_or(OTHERS) & (SUBJECTS - 1);
    // It may never have been met.
    let _ = KNOWN_VMS.remove(&kvm);
    next_epoch();
    let pid = read(kvm + u64::from(setting!(kvm_userspace_pid))).unwrap_or(0);
    emit(probe::LAYOUT, OTHERS, &Vm { kind: kind::VM_GONE, pid, time: now(), kvm, subject, reserved: 0 });
}

/// Notes the vhost device of the task's call.
#[inline(always)]
pub fn meet_device(known: &mut Known, device: u64) {
    if known.object == device && device != 0 {
        return;
    }
    if device == 0 {
        known.note(0, 0, OTHERS | flag(setting!(filter_pid) == 0));
        return;
    }
    // SAFETY: the value is a word that is copied at once.
    let value = unsafe { KNOWN_DEVICES.get(&device) }.copied();
    let value = value.unwrap_or_else(|| {
        let wanted = setting!(filter_pid) == 0 || works_for_wanted();
        let value = number() | flag(wanted);
        let _ = KNOWN_DEVICES.insert(&device, &value, u64::from(BPF_NOEXIST));
        // SAFETY: likewise. Of several queues' workers that meet it at once, one number stays.
        unsafe { KNOWN_DEVICES.get(&device) }.copied().unwrap_or(value)
    });
    known.note(device, 0, value);
}

/// Does the current task translate for the process that was asked for? It is a thread of it, or a kernel
/// thread that vhost named after the thread that took the device: `vhost-<tid>`.
#[inline(always)]
fn works_for_wanted() -> bool {
    if process() == setting!(filter_pid) {
        return true;
    }
    let Ok(name) = bpf_get_current_comm() else { return false };
    if name[0] != b'v' || name[1] != b'h' || name[5] != b'-' {
        return false;
    }
    let mut thread = 0u32;
    let mut index = 6;
    while index < 16 {
        let digit = name[index].wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        thread = thread.wrapping_mul(10).wrapping_add(u32::from(digit));
        index += 1;
    }
    // SAFETY: the value is a byte that is only asked for its presence.
    unsafe { FILTER_THREADS.get(&thread) }.is_some()
}
