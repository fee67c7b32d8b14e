//! Whose calls they are, as labels: VMs by name and process, and no more of them than Prometheus can bear.

use crate::model::{DeviceId, VmId};
use crate::recording::{DeviceMeta, VmMeta};
use std::collections::BTreeMap;

/// VMs and vhost devices that have series of their own at one time; those that come later share the series `other`.
pub const MAX_VMS: usize = 128;

/// How long the series of a VM that was destroyed stay, ns: long enough for every scraper to see its last calls.
const KEPT: u64 = 300_000_000_000;

/// Characters of a label's value.
const LONGEST: usize = 64;

/// What a call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Vm(VmId),
    Device(DeviceId),
    /// Not told apart: too many, or not known.
    Other,
}

impl Owner {
    pub(super) fn new(vm: Option<VmId>, device: Option<DeviceId>) -> Self {
        match (vm, device) {
            (Some(vm), _) => Self::Vm(vm),
            (None, Some(device)) => Self::Device(device),
            (None, None) => Self::Other,
        }
    }
}

/// Labels of a VM.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels {
    pub(super) vm: String,
    pub(super) pid: String,
}

/// Who has series of its own, and under which labels.
#[derive(Clone, Debug)]
pub(super) struct Names {
    most: usize,
    /// Owners that were met; false: they share.
    own: BTreeMap<Owner, bool>,
    labels: BTreeMap<Owner, Labels>,
    pids: BTreeMap<Owner, u32>,
}

impl Names {
    pub(super) fn new(most: usize) -> Self {
        Self { most, own: BTreeMap::new(), labels: BTreeMap::new(), pids: BTreeMap::new() }
    }

    /// The owner under whom a call is counted; for the whole of its life the same.
    pub(super) fn place(&mut self, owner: Owner) -> Owner {
        let used = self.used();
        let is_own = *self.own.entry(owner).or_insert(owner != Owner::Other && used < self.most);
        if is_own { owner } else { Owner::Other }
    }

    /// Owners that have series of their own.
    pub(super) fn used(&self) -> usize {
        self.own.values().filter(|own| **own).count()
    }

    /// VMs and devices that share series.
    pub(super) fn sharing(&self) -> usize {
        self.own.iter().filter(|(owner, own)| !**own && **owner != Owner::Other).count()
    }

    /// Takes what is known of VMs and devices at `now`; returns those whose series are over.
    pub(super) fn know(&mut self, vms: &[VmMeta], devices: &[DeviceMeta], now: u64) -> Vec<Owner> {
        for vm in vms {
            let name = if vm.name.is_empty() { format!("vm {}", vm.vm.0) } else { vm.name.clone() };
            self.name(Owner::Vm(vm.vm), &name, (vm.pid > 0).then_some(vm.pid));
        }
        for device in devices {
            let of_vm = vms.iter().rev().find(|vm| device.pid == Some(vm.pid) && !vm.name.is_empty());
            let name = of_vm.map_or(&device.worker, |vm| &vm.name);
            self.name(Owner::Device(device.device), name, device.pid);
        }
        let is_over = |vm: &VmMeta| vm.gone.is_some_and(|gone| gone.saturating_add(KEPT) <= now);
        let over: Vec<u32> = vms.iter().filter(|vm| is_over(vm)).map(|vm| vm.pid).collect();
        let lives = |pid: u32| vms.iter().any(|vm| vm.pid == pid && !is_over(vm));
        let mut retired: Vec<Owner> =
            vms.iter().filter(|vm| is_over(vm)).map(|vm| Owner::Vm(vm.vm)).collect();
        retired.extend(devices.iter().filter_map(|device| {
            let pid = device.pid.filter(|pid| over.contains(pid) && !lives(*pid))?;
            self.pids.values().any(|known| *known == pid).then_some(Owner::Device(device.device))
        }));
        // What still comes of them is nobody's own.
        retired.retain(|owner| self.own.insert(*owner, false) == Some(true));
        retired
    }

    fn name(&mut self, owner: Owner, name: &str, pid: Option<u32>) {
        let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
        let vm = name.chars().map(plain).take(LONGEST).collect();
        let label = pid.map(|pid| pid.to_string()).unwrap_or_default();
        self.labels.insert(owner, Labels { vm, pid: label });
        if let Some(pid) = pid {
            self.pids.insert(owner, pid);
        }
    }

    pub(super) fn labels(&self, owner: Owner) -> Labels {
        let unknown = || match owner {
            Owner::Vm(vm) => format!("vm {}", vm.0),
            Owner::Device(device) => format!("device {}", device.0),
            Owner::Other => "other".to_owned(),
        };
        self.labels.get(&owner).cloned().unwrap_or_else(|| Labels { vm: unknown(), pid: String::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(number: u32, name: &str, gone: Option<u64>) -> VmMeta {
        VmMeta { vm: VmId(number), pid: 100 + number, name: name.into(), older: false, gone }
    }

    #[test]
    fn however_many_vms_there_are_the_labels_are_few() {
        let mut names = Names::new(3);
        let placed: Vec<Owner> = (0..1000).map(|number| names.place(Owner::Vm(VmId(number)))).collect();
        assert_eq!(placed.iter().filter(|owner| **owner != Owner::Other).count(), 3);
        assert_eq!((names.used(), names.sharing()), (3, 997));
        // Nobody moves, so no counter goes back.
        assert_eq!(names.place(Owner::Vm(VmId(2))), Owner::Vm(VmId(2)));
        assert_eq!(names.place(Owner::Vm(VmId(3))), Owner::Other);
    }

    #[test]
    fn series_end_some_time_after_their_vm_and_make_room() {
        let mut names = Names::new(1);
        assert_eq!(names.place(Owner::Vm(VmId(0))), Owner::Vm(VmId(0)));
        let device = DeviceMeta { device: DeviceId(0), worker: "vhost-100".into(), pid: Some(100) };
        assert_eq!(names.know(&[vm(0, "web", Some(5))], std::slice::from_ref(&device), 5 + KEPT - 1), []);
        assert_eq!(
            names.know(&[vm(0, "web", Some(5))], std::slice::from_ref(&device), 5 + KEPT),
            [Owner::Vm(VmId(0))]
        );
        assert_eq!(names.know(&[vm(0, "web", Some(5))], &[device], 6 + KEPT), []);
        assert_eq!(names.place(Owner::Vm(VmId(0))), Owner::Other);
        assert_eq!(names.place(Owner::Vm(VmId(1))), Owner::Vm(VmId(1)));
    }

    #[test]
    fn labels_are_harmless_and_a_device_bears_its_vms_name() {
        let mut names = Names::new(9);
        let device = DeviceMeta { device: DeviceId(7), worker: "vhost-103".into(), pid: Some(103) };
        let long = "x".repeat(1000);
        names.know(&[vm(3, "a\u{1b}[2Jb", None), vm(4, &long, None)], &[device], 0);
        let expected = Labels { vm: "a\u{fffd}[2Jb".into(), pid: "103".into() };
        assert_eq!(names.labels(Owner::Vm(VmId(3))), expected);
        assert_eq!(names.labels(Owner::Device(DeviceId(7))), expected);
        assert_eq!(names.labels(Owner::Vm(VmId(4))).vm.chars().count(), LONGEST);
        assert_eq!(names.labels(Owner::Other).vm, "other");
    }
}
