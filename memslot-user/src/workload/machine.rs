//! A KVM virtual machine without firmware: slots, vCPUs in long mode, and their exits.

use super::error::device;
use super::memory::Mapping;
use super::{WorkloadError, host};
use crate::model::{Gfn, Gpa, PAGE_SHIFT, PAGE_SIZE};
use kvm_bindings::{
    CpuId, KVM_API_VERSION, KVM_MAX_CPUID_ENTRIES, KVM_MEM_LOG_DIRTY_PAGES, kvm_regs, kvm_segment,
    kvm_userspace_memory_region,
};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Frames that the guest can address: its identity map covers 512 GiB with 1 GiB pages.
pub(crate) const ADDRESSABLE: Gfn = Gfn(1 << (39 - 12));

/// A VM. The RAM outlives it: the VM's file is closed before the last reference to the mapping goes.
pub(crate) struct Machine {
    vm: VmFd,
    cpuid: CpuId,
    max_slots: usize,
    ram: Arc<Mapping>,
}

/// A slot to be set: where it lies in the guest and in the RAM mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotSetting {
    /// Slot id.
    pub(crate) id: u32,
    /// First frame.
    pub(crate) base_gfn: Gfn,
    /// Length in pages; 0 deletes the slot.
    pub(crate) npages: u64,
    /// Byte offset of its memory in the mapping.
    pub(crate) offset: usize,
    /// Log dirty pages.
    pub(crate) log_dirty: bool,
}

fn errno(error: kvm_ioctls::Error) -> io::Error {
    io::Error::from_raw_os_error(error.errno())
}

impl Machine {
    /// Creates an empty VM whose slots will lie in `ram`.
    pub(crate) fn new(ram: Arc<Mapping>) -> Result<Self, WorkloadError> {
        let kvm = Kvm::new().map_err(|error| match error.errno() {
            libc::ENOENT | libc::ENODEV | libc::ENXIO if !host::cpu_virtualises() => WorkloadError::host(
                "there is no /dev/kvm, and the CPU shows neither SVM nor VMX",
                "switch virtualisation on in the firmware, or nested virtualisation in the hypervisor \
                 that runs this machine",
            ),
            _ => device("/dev/kvm", "kvm_amd or kvm_intel", errno(error)),
        })?;
        if u32::try_from(kvm.get_api_version()) != Ok(KVM_API_VERSION) {
            return Err(WorkloadError::host(
                format!("/dev/kvm speaks API version {}, not {KVM_API_VERSION}", kvm.get_api_version()),
                "this is no KVM that memslot knows; check what provides /dev/kvm",
            ));
        }
        let vm = kvm.create_vm().map_err(|error| match error.errno() {
            libc::EBUSY => WorkloadError::host(
                "KVM_CREATE_VM was refused: another hypervisor uses the CPU's virtualisation",
                "stop it (VirtualBox, VMware, …) and try again",
            ),
            libc::EINVAL | libc::EIO | libc::ENODEV | libc::EOPNOTSUPP => WorkloadError::host(
                "KVM_CREATE_VM was refused: the CPU's virtualisation (SVM, VMX) cannot be used",
                "switch it on in the firmware, or nested virtualisation in the hypervisor that runs this \
                 machine; dmesg may say more",
            ),
            _ => WorkloadError::system(
                "create a VM (KVM_CREATE_VM)",
                "the kernel log (dmesg) may say why",
                errno(error),
            ),
        })?;
        let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(|error| {
            WorkloadError::system(
                "ask which CPU features guests get (KVM_GET_SUPPORTED_CPUID)",
                "the kernel log (dmesg) may say why",
                errno(error),
            )
        })?;
        let leaf = |function| cpuid.as_slice().iter().find(|entry| entry.function == function);
        if leaf(0x8000_0001).is_none_or(|entry| entry.edx & (1 << 26) == 0) {
            return Err(WorkloadError::host(
                "guests get no 1 GiB pages on this CPU (pdpe1gb), which the guest's identity map needs",
                "use a newer CPU, or give this machine's own virtual CPU the feature",
            ));
        }
        Ok(Self { vm, max_slots: kvm.get_nr_memslots(), cpuid, ram })
    }

    /// The address bits that guests get.
    pub(crate) fn address_bits(&self) -> u32 {
        let leaf = self.cpuid.as_slice().iter().find(|entry| entry.function == 0x8000_0008);
        leaf.map_or(36, |entry| entry.eax & 0xff)
    }

    /// Slots that a VM may have here.
    pub(crate) fn max_slots(&self) -> usize {
        self.max_slots
    }

    /// Creates, moves or deletes a slot.
    pub(crate) fn set_slot(&self, slot: SlotSetting) -> Result<(), WorkloadError> {
        let bytes = slot.npages * PAGE_SIZE;
        let region = kvm_userspace_memory_region {
            slot: slot.id,
            flags: if slot.log_dirty { KVM_MEM_LOG_DIRTY_PAGES } else { 0 },
            guest_phys_addr: slot.base_gfn.gpa().0,
            memory_size: bytes,
            userspace_addr: self.ram.address(slot.offset),
        };
        // SAFETY: the memory is part of `ram`, which this VM keeps alive, and which is only reached
        // through atomics; the guest may change it at any time.
        unsafe { self.vm.set_user_memory_region(region) }.map_err(|error| match error.errno() {
            libc::EINVAL if usize::try_from(slot.id).is_ok_and(|id| id >= self.max_slots) => {
                WorkloadError::options(format!(
                    "slot {} is one too many: KVM_CAP_NR_MEMSLOTS says {} here; ask for fewer",
                    slot.id, self.max_slots
                ))
            }
            libc::EEXIST => {
                WorkloadError::options(format!("slot {} overlaps another slot; correct the layout", slot.id))
            }
            _ => WorkloadError::system(
                format!("set slot {} (frame {:#x}, {} pages)", slot.id, slot.base_gfn.0, slot.npages),
                "the kernel log (dmesg) may say why; try fewer or smaller slots",
                errno(error),
            ),
        })
    }

    /// Fetches and resets a slot's dirty bitmap, which write-protects the pages that were dirty.
    pub(crate) fn reset_dirty(&self, id: u32, npages: u64) -> Result<(), WorkloadError> {
        let bytes = usize::try_from(npages * PAGE_SIZE).unwrap_or(usize::MAX);
        self.vm.get_dirty_log(id, bytes).map(drop).map_err(|error| {
            WorkloadError::system(
                format!("fetch the dirty log of slot {id}"),
                "use another --refault",
                errno(error),
            )
        })
    }

    /// Creates vCPU `id` in 64-bit mode, its page tables at `pml4`, ready for [`Vcpu::run`].
    pub(crate) fn vcpu(&self, id: u32, pml4: Gpa) -> Result<Vcpu, WorkloadError> {
        let failed = |action: &str, error| {
            WorkloadError::system(
                format!("{action} vCPU {id}"),
                "ask for fewer vCPUs; the kernel log (dmesg) may say more",
                errno(error),
            )
        };
        let fd = self.vm.create_vcpu(u64::from(id)).map_err(|error| failed("create", error))?;
        fd.set_cpuid2(&self.cpuid).map_err(|error| failed("describe the CPU features to", error))?;
        let mut registers = fd.get_sregs().map_err(|error| failed("read the state of", error))?;
        let code = kvm_segment {
            base: 0,
            limit: 0xffff_ffff,
            selector: 8,
            type_: 11,
            present: 1,
            dpl: 0,
            db: 0,
            s: 1,
            l: 1,
            g: 1,
            ..kvm_segment::default()
        };
        let data = kvm_segment { selector: 16, type_: 3, l: 0, db: 1, ..code };
        registers.cs = code;
        (registers.ds, registers.es, registers.ss) = (data, data, data);
        (registers.fs, registers.gs) = (data, data);
        registers.cr0 = 0x8000_0031; // PG, NE, ET, PE
        registers.cr3 = pml4.0;
        registers.cr4 = 0x20; // PAE
        registers.efer = 0x500; // LMA, LME
        fd.set_sregs(&registers).map_err(|error| failed("switch to 64-bit mode", error))?;
        Ok(Vcpu { fd, id })
    }
}

/// Writes the guest's two page tables at `offset` of `ram`, which is guest address `pml4`: an identity
/// map. Accessed and dirty bits are set already, so that the CPU never has to write to a table.
pub(crate) fn write_page_tables(ram: &Mapping, offset: usize, pml4: Gpa) {
    const PRESENT_WRITE_USER_ACCESSED: u64 = 0x27;
    const PRESENT_WRITE_LARGE_ACCESSED_DIRTY: u64 = 0xe3;
    let page = 1_usize << PAGE_SHIFT;
    ram.u64(offset).store((pml4.0 + PAGE_SIZE) | PRESENT_WRITE_USER_ACCESSED, Ordering::Relaxed);
    for gib in 0..512_usize {
        let entry = ((gib as u64) << 30) | PRESENT_WRITE_LARGE_ACCESSED_DIRTY;
        ram.u64(offset + page + gib * 8).store(entry, Ordering::Relaxed);
    }
}

/// A vCPU, used by one thread.
pub(crate) struct Vcpu {
    fd: VcpuFd,
    id: u32,
}

impl Vcpu {
    /// Runs from the given registers to the next HLT; accesses without a slot read as 0 and are counted.
    pub(crate) fn run(&mut self, registers: &kvm_regs) -> Result<u64, WorkloadError> {
        let registers = kvm_regs { rflags: 2, ..*registers };
        self.fd.set_regs(&registers).map_err(|error| self.failed(errno(error)))?;
        let mut no_slot = 0;
        loop {
            let exit = match self.fd.run() {
                Ok(exit) => exit,
                // A signal or a stop by job control; the guest just goes on.
                Err(error) if error.errno() == libc::EINTR => continue,
                Err(error) => return Err(self.failed(errno(error))),
            };
            match exit {
                VcpuExit::Hlt => return Ok(no_slot),
                VcpuExit::MmioRead(_, data) => {
                    no_slot += 1;
                    data.fill(0);
                }
                VcpuExit::MmioWrite(..) => no_slot += 1,
                VcpuExit::Intr => {}
                other => {
                    let (what, remedy) = describe(&other);
                    return Err(WorkloadError::Exit { vcpu: self.id, what, remedy });
                }
            }
        }
    }

    /// The general registers after a run.
    pub(crate) fn registers(&self) -> Result<kvm_regs, WorkloadError> {
        self.fd.get_regs().map_err(|error| self.failed(errno(error)))
    }

    fn failed(&self, source: io::Error) -> WorkloadError {
        match source.raw_os_error() {
            Some(libc::EFAULT) => WorkloadError::host(
                format!("vCPU {} got no memory for a page that it touched", self.id),
                "free memory, raise the cgroup's limit, or ask for fewer --accesses",
            ),
            _ => WorkloadError::system(
                format!("run vCPU {}", self.id),
                "the kernel log (dmesg) may say why",
                source,
            ),
        }
    }
}

/// An exit that no program here causes, by name, and what to do.
fn describe(exit: &VcpuExit<'_>) -> (String, &'static str) {
    match exit {
        VcpuExit::Shutdown => (
            "the guest shut down after a triple fault (KVM_EXIT_SHUTDOWN)".into(),
            "the CPU or the hypervisor underneath may not run 64-bit guests with 1 GiB pages; try another host",
        ),
        VcpuExit::InternalError => (
            "KVM could not emulate an instruction (KVM_EXIT_INTERNAL_ERROR)".into(),
            "the kernel log (dmesg) may say why; nested virtualisation is a common cause",
        ),
        VcpuExit::FailEntry(reason, cpu) => (
            format!(
                "the CPU refused to enter the guest (KVM_EXIT_FAIL_ENTRY, reason {reason:#x}, CPU {cpu})"
            ),
            "the kernel log (dmesg) holds a dump of the guest's state",
        ),
        VcpuExit::MemoryFault { gpa, .. } => (
            format!("KVM could not map guest address {gpa:#x} (KVM_EXIT_MEMORY_FAULT)"),
            "free memory, or ask for fewer --accesses",
        ),
        other => (format!("{other:?}"), "this is a defect; report it with the command line"),
    }
}

#[cfg(test)]
mod tests {
    use super::{describe, write_page_tables};
    use crate::model::Gpa;
    use crate::workload::memory::Mapping;
    use kvm_ioctls::VcpuExit;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn the_tables_map_each_gibibyte_to_itself_with_accessed_and_dirty_set() {
        let ram = Mapping::new(3 << 12).unwrap();
        write_page_tables(&ram, 0x1000, Gpa(0x8000));
        assert_eq!(ram.u64(0x1000).load(Relaxed), 0x9027);
        assert_eq!(ram.u64(0x1008).load(Relaxed), 0);
        assert_eq!(ram.u64(0x2000).load(Relaxed), 0xe3);
        assert_eq!(ram.u64(0x2ff8).load(Relaxed), (511 << 30) | 0xe3);
    }

    #[test]
    fn unlikely_exits_are_named() {
        for (exit, name) in [
            (VcpuExit::Shutdown, "KVM_EXIT_SHUTDOWN"),
            (VcpuExit::InternalError, "KVM_EXIT_INTERNAL_ERROR"),
            (VcpuExit::FailEntry(0x8000_0021, 3), "reason 0x80000021, CPU 3"),
        ] {
            let (what, remedy) = describe(&exit);
            assert!(what.contains(name), "{what}");
            assert!(!remedy.is_empty());
        }
    }
}
