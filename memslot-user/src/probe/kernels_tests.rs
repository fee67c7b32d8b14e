//! Extracts of real kernels' BTF, of series that cannot all be booted here: are the members found where pahole sees
//! them, and have the probed functions the parameters that the programs expect?

use super::{
    KernelTypes,
    kernel_types::{Gaps, settings},
    target::TARGETS,
};
use memslot_common::settings::{ABSENT, Settings};
use std::{collections::BTreeMap, fs, path::PathBuf};

const TREES: [&str; 3] = ["debian-6.1", "debian-6.12", "debian-7.2"];
const ARRAYS: [&str; 1] = ["debian-5.10"];
const MODULES: [&str; 5] = ["kvm", "kvm_amd", "kvm_intel", "vhost", "vhost_iotlb"];

fn folder(kernel: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/btf").join(kernel)
}

fn types(kernel: &str) -> KernelTypes {
    let mut types = KernelTypes::in_directory(&folder(kernel)).unwrap();
    for module in MODULES {
        assert!(types.module(module).unwrap().is_some(), "{kernel}: {module}");
    }
    types
}

fn settings_of(kernel: &str, vendor: &str) -> (Settings, Gaps) {
    let types = types(kernel);
    settings(types.loaded("kvm"), types.loaded(vendor), types.loaded("vhost"), types.loaded("vhost_iotlb"))
}

/// Offsets as pahole prints them.
fn pahole(kernel: &str) -> BTreeMap<String, u32> {
    let text = fs::read_to_string(folder(kernel).join("pahole.txt")).unwrap();
    let line = |line: &str| {
        let (member, offset) = line.split_once(' ').unwrap();
        (member.to_owned(), offset.parse().unwrap())
    };
    text.lines().map(line).collect()
}

#[test]
fn offsets_are_those_that_pahole_sees_on_every_kernel() {
    for kernel in TREES {
        let at = pahole(kernel);
        let (amd, gaps) = settings_of(kernel, "kvm_amd");
        assert_eq!(gaps, Gaps::default(), "{kernel}");
        let members = [
            (amd.vcpu_kvm, "kvm_vcpu.kvm"),
            (amd.vcpu_id, "kvm_vcpu.vcpu_id"),
            (amd.vcpu_last_used_slot, "kvm_vcpu.last_used_slot"),
            (amd.vcpu_last_used_slot_gen, "kvm_vcpu.last_used_slot_gen"),
            (amd.mmu_root_role, "kvm_mmu.root_role"),
            (amd.kvm_memslots, "kvm.memslots"),
            (amd.kvm_userspace_pid, "kvm.userspace_pid"),
            (amd.memslots_generation, "kvm_memslots.generation"),
            (amd.memslots_gfn_tree, "kvm_memslots.gfn_tree"),
            (amd.memslots_node_idx, "kvm_memslots.node_idx"),
            (amd.slot_gfn_node, "kvm_memory_slot.gfn_node"),
            (amd.slot_id, "kvm_memory_slot.id"),
            (amd.slot_as_id, "kvm_memory_slot.as_id"),
            (amd.slot_flags, "kvm_memory_slot.flags"),
            (amd.slot_hva, "kvm_memory_slot.userspace_addr"),
            (amd.vq_dev, "vhost_virtqueue.dev"),
            (amd.dev_vqs, "vhost_dev.vqs"),
            (amd.dev_nvqs, "vhost_dev.nvqs"),
            (amd.dev_umem, "vhost_dev.umem"),
            (amd.dev_iotlb, "vhost_dev.iotlb"),
            (amd.iotlb_root, "vhost_iotlb.root"),
            (amd.iotlb_nmaps, "vhost_iotlb.nmaps"),
            (amd.svm_vmcb, "vcpu_svm.vmcb"),
        ];
        for (offset, member) in members {
            assert_eq!(Some(&offset), at.get(member), "{kernel}: {member}");
        }
        assert_eq!(amd.vcpu_mmu, at["kvm_vcpu.arch"] + at["kvm_vcpu_arch.mmu"], "{kernel}");
        let count = at["vmcb.control"] + at["vmcb_control_area.pause_filter_count"];
        assert_eq!(amd.vmcb_pause_filter_count, count, "{kernel}");
        assert_eq!((amd.walk_slots, amd.walk_regions, amd.vmx_ple_window), (1, 1, ABSENT), "{kernel}");
    }
}

#[test]
fn the_window_of_an_intel_vcpu_is_found_on_every_kernel() {
    for kernel in TREES.into_iter().chain(ARRAYS) {
        let (intel, gaps) = settings_of(kernel, "kvm_intel");
        assert_eq!(gaps.window, None, "{kernel}");
        assert_eq!(Some(&intel.vmx_ple_window), pahole(kernel).get("vcpu_vmx.ple_window"), "{kernel}");
        assert_eq!(intel.svm_vmcb, ABSENT, "{kernel}");
    }
}

#[test]
fn regions_are_read_alike_on_every_kernel() {
    for kernel in TREES.into_iter().chain(ARRAYS) {
        let (settings, gaps) = settings_of(kernel, "kvm_amd");
        assert_eq!((gaps.regions, settings.walk_regions), (None, 1), "{kernel}");
        assert_eq!(Some(&settings.dev_umem), pahole(kernel).get("vhost_dev.umem"), "{kernel}");
    }
}

#[test]
fn the_probed_functions_have_the_parameters_that_the_programs_expect() {
    for kernel in TREES {
        let types = types(kernel);
        for target in TARGETS.iter().filter(|target| !target.modules.is_empty()) {
            let parameters = target.functions.iter().find_map(|function| {
                let loaded = target.modules.iter().filter_map(|module| types.loaded(module));
                loaded.filter_map(|btf| btf.parameters(function).ok()).next()
            });
            assert_eq!(parameters, Some(target.parameters), "{kernel}: {:?}", target.functions);
        }
        // Both vendors' handlers, not only the first that is found.
        assert_eq!(types.loaded("kvm_intel").unwrap().parameters("handle_pause"), Ok(1), "{kernel}");
    }
}
