//! Kernel addresses to small numbers, and raw records to events.
//!
//! A `struct kvm`, `vhost_dev` or `vhost_iotlb` that is freed and allocated again at the same address
//! is another object and gets another number: the records of creation and end say when.

use super::{decode::Record, vm_name};
use crate::{
    model::{
        Class, DeviceId, Fault, Gfn, Gpa, Memslot, PleExit, Probe, Region, RegionChange, RegionChangeKind,
        SearchLength, SlotChange, SlotChangeKind, TableId, Translation, VmId,
    },
    recording::{DeviceMeta, TableMeta, VmMeta},
};
use memslot_common::{
    account::OTHERS,
    event::{self as raw, UNKNOWN_LENGTH, change, kind},
};
use std::collections::{BTreeMap, HashMap};

/// What a record means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A fault.
    Fault(Fault),
    /// A PLE exit.
    PleExit(PleExit),
    /// A translation.
    Translation(Translation),
    /// Slots changed; several for a snapshot.
    Slots(Vec<SlotChange>),
    /// Regions changed; several for a snapshot.
    Regions(Vec<RegionChange>),
    /// The slots of this VM must be asked for.
    AskSlots(AskSlots),
    /// The regions of this table must be asked for.
    AskRegions(AskRegions),
    /// Nothing to pass on.
    Nothing,
}

/// A VM that is older than the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskSlots {
    /// Address of the `struct kvm`.
    pub(super) kvm: u64,
}

/// A table that is older than the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskRegions {
    /// Address of the `struct vhost_iotlb`.
    pub(super) iotlb: u64,
}

/// A snapshot on its way through the ring.
#[derive(Debug)]
struct Pending<T> {
    records: Vec<T>,
    /// How many there will be, once the walk that writes them has ended well.
    expected: Option<usize>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self { records: Vec::new(), expected: None }
    }
}

impl<T> Pending<T> {
    fn push(&mut self, order: u32, record: T) {
        if order == 0 {
            self.records.clear();
        }
        self.records.push(record);
    }

    fn whole(&mut self) -> Option<Vec<T>> {
        let whole = self.expected == Some(self.records.len());
        whole.then(|| {
            self.expected = None;
            std::mem::take(&mut self.records)
        })
    }
}

/// Gives numbers to kernel objects.
#[derive(Debug, Default)]
pub struct Resolver {
    vms: HashMap<u64, VmId>,
    devices: HashMap<u64, DeviceId>,
    tables: HashMap<u64, TableId>,
    vm_list: Vec<VmMeta>,
    device_list: Vec<DeviceMeta>,
    table_list: BTreeMap<TableId, TableMeta>,
    next_table: u32,
    slot_snapshots: HashMap<(u64, u16), Pending<SlotChange>>,
    region_snapshots: HashMap<u64, Pending<RegionChange>>,
    /// VMs and devices by the number that counters and histograms know them by.
    subjects: HashMap<u32, Subject>,
}

/// What a number in counters and histograms stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Vm(VmId),
    Device(DeviceId),
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn on_cpu(time: u64) -> Option<u64> {
    (time != u64::MAX).then_some(time)
}

fn length(visited: u16, touched: u16) -> Option<SearchLength> {
    let known = visited != UNKNOWN_LENGTH;
    known.then_some(SearchLength { visited: u32::from(visited), touched: u32::from(touched) })
}

impl Resolver {
    /// What a record means; numbers are given where it names an object for the first time.
    pub fn resolve(&mut self, record: &Record) -> Event {
        match record {
            Record::Fault(fault) => Event::Fault(self.fault(fault)),
            Record::PleExit(exit) => Event::PleExit(self.ple_exit(exit)),
            Record::Translation(translation) => Event::Translation(self.translation(translation)),
            Record::Vm(vm) => self.vm(vm),
            Record::SlotChange(change) => self.slot_change(change),
            Record::Table(table) => self.table(table),
            Record::RegionChange(change) => self.region_change(change),
        }
    }

    /// VMs, devices and tables met so far.
    #[must_use]
    pub fn objects(&self) -> (Vec<VmMeta>, Vec<DeviceMeta>, Vec<TableMeta>) {
        (self.vm_list.clone(), self.device_list.clone(), self.table_list.values().cloned().collect())
    }

    /// Process that owns a VM.
    #[must_use]
    pub fn pid_of_vm(&self, vm: VmId) -> Option<u32> {
        Some(self.vm_list.get(vm.0 as usize)?.pid)
    }

    /// Process that owns a device, where the worker's name says so.
    #[must_use]
    pub fn pid_of_device(&self, device: DeviceId) -> Option<u32> {
        self.device_list.get(device.0 as usize)?.pid
    }

    /// A snapshot of `count` slots has been written to the ring; `None` unless all have been read yet.
    pub(super) fn expect_slots(&mut self, kvm: u64, as_id: u16, count: usize) -> Option<Vec<SlotChange>> {
        if count == 0 {
            return None;
        }
        let pending = self.slot_snapshots.entry((kvm, as_id)).or_default();
        pending.expected = Some(count);
        pending.whole()
    }

    /// The same of regions.
    pub(super) fn expect_regions(&mut self, iotlb: u64, count: usize) -> Option<Vec<RegionChange>> {
        if count == 0 {
            return None;
        }
        let pending = self.region_snapshots.entry(iotlb).or_default();
        pending.expected = Some(count);
        pending.whole()
    }

    /// The VM or device that a number in a probe's counters stands for; neither where it is none of ours.
    pub fn of_subject(&mut self, probe: Probe, subject: u32) -> (Option<VmId>, Option<DeviceId>) {
        if subject == OTHERS {
            return (None, None);
        }
        let known = self.subjects.get(&subject).copied();
        match known.unwrap_or_else(|| {
            // Its own record is still in the ring, or was lost.
            if probe == Probe::Translate {
                Subject::Device(self.new_device(subject))
            } else {
                Subject::Vm(self.add_vm(subject, 0, true))
            }
        }) {
            Subject::Vm(vm) => (Some(vm), None),
            Subject::Device(device) => (None, Some(device)),
        }
    }

    /// Has the VM been destroyed?
    #[must_use]
    pub fn is_gone(&self, vm: VmId) -> bool {
        self.vm_list.get(vm.0 as usize).is_some_and(|vm| vm.gone.is_some())
    }

    fn vm_id(&mut self, kvm: u64, subject: u32) -> VmId {
        if let Some(&vm) = self.vms.get(&kvm) {
            return vm;
        }
        // Its own record was lost: it is known by number alone.
        self.new_vm(kvm, subject, 0, true)
    }

    fn new_vm(&mut self, kvm: u64, subject: u32, pid: u32, older: bool) -> VmId {
        let vm = match self.subjects.get(&subject) {
            // A counter was read before this.
            Some(&Subject::Vm(vm)) => {
                self.name_vm(vm, pid);
                vm
            }
            _ => self.add_vm(subject, pid, older),
        };
        if let Some(meta) = self.vm_list.get_mut(vm.0 as usize) {
            meta.older = older;
        }
        self.vms.insert(kvm, vm);
        vm
    }

    fn add_vm(&mut self, subject: u32, pid: u32, older: bool) -> VmId {
        let vm = VmId(number(self.vm_list.len()));
        if subject != OTHERS {
            self.subjects.insert(subject, Subject::Vm(vm));
        }
        self.vm_list.push(VmMeta { vm, pid: 0, name: String::new(), older, gone: None });
        self.name_vm(vm, pid);
        vm
    }

    /// `kvm->userspace_pid` is the thread that created the VM.
    fn name_vm(&mut self, vm: VmId, thread: u32) {
        if let Some(meta) = self.vm_list.get_mut(vm.0 as usize) {
            meta.pid = vm_name::process_of(thread);
            meta.name = vm_name::of_process(meta.pid);
        }
    }

    fn device_id(&mut self, device: u64, subject: u32) -> DeviceId {
        if let Some(&id) = self.devices.get(&device) {
            return id;
        }
        let id = match self.subjects.get(&subject) {
            Some(&Subject::Device(id)) => id,
            _ => self.new_device(subject),
        };
        self.devices.insert(device, id);
        id
    }

    fn new_device(&mut self, subject: u32) -> DeviceId {
        let id = DeviceId(number(self.device_list.len()));
        if subject != OTHERS {
            self.subjects.insert(subject, Subject::Device(id));
        }
        self.device_list.push(DeviceMeta { device: id, worker: String::new(), pid: None });
        id
    }

    fn table_id(&mut self, iotlb: u64) -> TableId {
        if let Some(&id) = self.tables.get(&iotlb) {
            return id;
        }
        let id = TableId(self.next_table);
        self.next_table += 1;
        self.tables.insert(iotlb, id);
        id
    }

    fn fault(&mut self, fault: &raw::Fault) -> Fault {
        let class = match fault.class {
            raw::class::RAM => Class::Ram,
            raw::class::MMIO_CACHED => Class::MmioCached,
            raw::class::SHADOW => Class::Shadow,
            _ => Class::NoSlot,
        };
        Fault {
            time: fault.time,
            latency: fault.latency,
            on_cpu: on_cpu(fault.on_cpu),
            cpu: fault.cpu,
            vm: self.vm_id(fault.kvm, u32::from(fault.subject)),
            vcpu: fault.vcpu,
            gpa: Gpa(fault.gpa),
            error_code: fault.error_code,
            class,
            as_id: fault.as_id,
            slot: (fault.slot >= 0).then_some(fault.slot),
            last_used: (fault.last_used >= 0).then_some(fault.last_used),
            ret: fault.ret,
            length: length(fault.visited, fault.touched),
            generation: fault.generation & !Fault::UPDATE_IN_PROGRESS,
            ambiguous: fault.generation & Fault::UPDATE_IN_PROGRESS != 0,
        }
    }

    fn ple_exit(&mut self, exit: &raw::PleExit) -> PleExit {
        PleExit {
            time: exit.time,
            latency: exit.latency,
            on_cpu: on_cpu(exit.on_cpu),
            on_spin: (exit.on_spin != u64::MAX).then_some(exit.on_spin),
            cpu: exit.cpu,
            vm: self.vm_id(exit.kvm, exit.subject),
            vcpu: exit.vcpu,
            window: (exit.window_before, exit.window_after),
            yields: u32::from(exit.yields),
            boosted: u32::from(exit.boosted),
            declined: u32::from(exit.declined),
            undercommit: u32::from(exit.undercommit),
        }
    }

    fn translation(&mut self, translation: &raw::Translation) -> Translation {
        let device = self.device_id(translation.device, translation.subject);
        let table = self.table_id(translation.iotlb);
        self.table_list.entry(table).or_insert(TableMeta { table, device, older: false });
        Translation {
            time: translation.time,
            latency: translation.latency,
            on_cpu: on_cpu(translation.on_cpu),
            cpu: translation.cpu,
            device,
            table,
            worker: translation.worker,
            queue: (translation.queue != u16::MAX).then_some(translation.queue),
            addr: translation.addr,
            len: translation.len,
            access: translation.access,
            ret: translation.ret,
            regions: translation.regions,
            length: length(translation.visited, translation.touched),
            is_iotlb: translation.is_iotlb != 0,
        }
    }

    fn vm(&mut self, vm: &raw::Vm) -> Event {
        match vm.kind {
            kind::VM_CREATED => {
                self.new_vm(vm.kvm, vm.subject, vm.pid, false);
                Event::Nothing
            }
            kind::VM_SEEN => {
                // An event that overtook this record, or the probes' own table of known VMs dropping it.
                match self.vms.get(&vm.kvm) {
                    Some(&id) => self.name_vm(id, vm.pid),
                    None => {
                        self.new_vm(vm.kvm, vm.subject, vm.pid, true);
                    }
                }
                Event::AskSlots(AskSlots { kvm: vm.kvm })
            }
            _ => {
                if let Some(meta) =
                    self.vms.remove(&vm.kvm).and_then(|id| self.vm_list.get_mut(id.0 as usize))
                {
                    meta.gone = Some(vm.time);
                }
                self.slot_snapshots.retain(|(kvm, _), _| *kvm != vm.kvm);
                Event::Nothing
            }
        }
    }

    fn slot_change(&mut self, change: &raw::SlotChange) -> Event {
        let kind = match change.change {
            change::SNAPSHOT => SlotChangeKind::Snapshot { order: change.order, black: change.black != 0 },
            change::CREATE => SlotChangeKind::Create,
            change::DELETE => SlotChangeKind::Delete,
            change::MOVE => SlotChangeKind::Move { old_base_gfn: Gfn(change.old_base_gfn) },
            _ => SlotChangeKind::Flags,
        };
        // A VM that is older, and not met yet: its snapshot will hold the change. Or one that is gone: KVM
        // deletes its own slots after we are told of the end.
        let Some(&vm) = self.vms.get(&change.kvm) else { return Event::Nothing };
        let event = SlotChange {
            time: change.time,
            vm,
            as_id: change.as_id,
            generation: change.generation & !Fault::UPDATE_IN_PROGRESS,
            kind,
            slot: Memslot { id: change.id, base_gfn: Gfn(change.base_gfn), npages: change.npages },
            flags: change.flags,
            hva: change.hva,
        };
        if change.change != change::SNAPSHOT {
            return Event::Slots(vec![event]);
        }
        let pending = self.slot_snapshots.entry((change.kvm, change.as_id)).or_default();
        pending.push(change.order, event);
        pending.whole().map_or(Event::Nothing, Event::Slots)
    }

    fn table(&mut self, table: &raw::Table) -> Event {
        let device = self.device_id(table.device, table.subject);
        if let Some(meta) = self.device_list.get_mut(device.0 as usize) {
            let name = [table.name0.to_ne_bytes(), table.name1.to_ne_bytes()].concat();
            meta.worker = vm_name::printable(name.split(|&byte| byte == 0).next().unwrap_or_default());
            // vhost names its workers after the thread that took the device: `vhost-<tid>`.
            // Newer kernels translate in the owner's own threads as well.
            let thread = meta.worker.strip_prefix("vhost-").and_then(|thread| thread.parse().ok());
            meta.pid = Some(vm_name::process_of(thread.unwrap_or(table.worker)));
        }
        let older = table.older != 0;
        let id = self.table_id(table.iotlb);
        self.table_list.insert(id, TableMeta { table: id, device, older });
        if older { Event::AskRegions(AskRegions { iotlb: table.iotlb }) } else { Event::Nothing }
    }

    fn region_change(&mut self, change: &raw::RegionChange) -> Event {
        let kind = match change.change {
            change::SNAPSHOT => RegionChangeKind::Snapshot { order: change.order, black: change.black != 0 },
            change::REMOVE_RANGE => RegionChangeKind::RemoveRange,
            change::FREE => RegionChangeKind::Free,
            _ => RegionChangeKind::Add,
        };
        let ends = matches!(kind, RegionChangeKind::Free | RegionChangeKind::RemoveRange);
        if ends && !self.tables.contains_key(&change.iotlb) {
            // Never used and never filled while we looked, or gone: `vhost_iotlb_free` removes the regions
            // after we are told of the end.
            return Event::Nothing;
        }
        let event = RegionChange {
            time: change.time,
            table: self.table_id(change.iotlb),
            kind,
            region: Region { start: change.start, last: change.last },
            hva: change.hva,
            perm: change.perm,
        };
        match kind {
            RegionChangeKind::Snapshot { order, .. } => {
                let pending = self.region_snapshots.entry(change.iotlb).or_default();
                pending.push(order, event);
                pending.whole().map_or(Event::Nothing, Event::Regions)
            }
            RegionChangeKind::Free => {
                self.tables.remove(&change.iotlb);
                self.region_snapshots.remove(&change.iotlb);
                Event::Regions(vec![event])
            }
            _ => Event::Regions(vec![event]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Resolver};
    use crate::{model::VmId, probe::decode::Record};
    use memslot_common::event::{self as raw, change, kind};

    fn fault(kvm: u64) -> Record {
        Record::Fault(raw::Fault { kind: kind::FAULT, kvm, slot: -1, last_used: -1, ..raw::Fault::ZERO })
    }

    fn vm(kind: u32, kvm: u64) -> Record {
        Record::Vm(raw::Vm { kind, pid: 0, time: 7, kvm, subject: 0, reserved: 0 })
    }

    #[test]
    fn an_address_that_is_used_again_is_another_vm() {
        let mut resolver = Resolver::default();
        let vm_of = |event| match event {
            Event::Fault(fault) => fault.vm,
            other => panic!("{other:?}"),
        };
        resolver.resolve(&vm(kind::VM_CREATED, 0xa000));
        assert_eq!(vm_of(resolver.resolve(&fault(0xa000))), VmId(0));
        resolver.resolve(&vm(kind::VM_GONE, 0xa000));
        resolver.resolve(&vm(kind::VM_CREATED, 0xa000));
        assert_eq!(vm_of(resolver.resolve(&fault(0xa000))), VmId(1));
        let (vms, ..) = resolver.objects();
        assert_eq!((vms[0].gone, vms[1].gone), (Some(7), None));
    }

    /// On Intel KVM deletes its own slots inside `kvm_arch_destroy_vm`, after its entry was seen.
    #[test]
    fn what_comes_after_the_end_of_a_vm_makes_no_new_one() {
        let mut resolver = Resolver::default();
        resolver.resolve(&vm(kind::VM_CREATED, 0xa000));
        resolver.resolve(&vm(kind::VM_GONE, 0xa000));
        let delete = raw::SlotChange {
            kind: kind::SLOT_CHANGE,
            change: change::DELETE,
            kvm: 0xa000,
            ..raw::SlotChange::ZERO
        };
        assert_eq!(resolver.resolve(&Record::SlotChange(delete)), Event::Nothing);
        assert_eq!(resolver.objects().0.len(), 1);
    }

    fn part(order: u32) -> Record {
        Record::SlotChange(raw::SlotChange {
            kind: kind::SLOT_CHANGE,
            change: change::SNAPSHOT,
            kvm: 0xa000,
            order,
            npages: 1,
            ..raw::SlotChange::ZERO
        })
    }

    #[test]
    fn a_snapshot_is_passed_on_only_when_it_is_whole() {
        let mut resolver = Resolver::default();
        resolver.resolve(&vm(kind::VM_SEEN, 0xa000));
        assert_eq!(resolver.resolve(&part(0)), Event::Nothing);
        // A second attempt begins anew.
        assert_eq!(resolver.resolve(&part(0)), Event::Nothing);
        assert_eq!(resolver.expect_slots(0xa000, 0, 2), None);
        assert!(matches!(resolver.resolve(&part(1)), Event::Slots(slots) if slots.len() == 2));
    }
}
