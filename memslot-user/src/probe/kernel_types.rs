//! The running kernel's BTF files, and the [`Settings`] that the probes take from them.

use super::btf::{Btf, BtfError, Member};
use memslot_common::settings::{ABSENT, Settings};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Why the kernel's structures are not known.
#[derive(Debug, Error)]
pub enum KernelTypesError {
    /// No BTF at all.
    #[error(
        "this kernel has no BTF ({path}: {error}); memslot needs a kernel built with \
         CONFIG_DEBUG_INFO_BTF=y, as every current distribution's is"
    )]
    NoBtf {
        /// The file that was asked for.
        path: PathBuf,
        /// What the file system said.
        error: io::Error,
    },
    /// A file that is no BTF.
    #[error("{path}: {error}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: BtfError,
    },
}

/// Bytes that the probes see at once, at the most: a region's node.
const WORDS: u32 = 96;

/// BTF of vmlinux and of the modules that were asked for.
pub struct KernelTypes {
    directory: PathBuf,
    vmlinux: Vec<u8>,
    core: Btf,
    modules: BTreeMap<String, Option<Btf>>,
}

impl KernelTypes {
    /// Reads `/sys/kernel/btf`.
    ///
    /// # Errors
    /// When the kernel has no BTF or it cannot be read.
    pub fn of_this_kernel() -> Result<Self, KernelTypesError> {
        Self::in_directory(Path::new("/sys/kernel/btf"))
    }

    /// Reads a directory with `vmlinux` and a file a module.
    ///
    /// # Errors
    /// When there is no `vmlinux`, or it is no BTF.
    pub fn in_directory(directory: &Path) -> Result<Self, KernelTypesError> {
        let path = directory.join("vmlinux");
        let vmlinux =
            fs::read(&path).map_err(|error| KernelTypesError::NoBtf { path: path.clone(), error })?;
        let core =
            Btf::parse(&vmlinux, None).map_err(|error| KernelTypesError::Unreadable { path, error })?;
        Ok(Self { directory: directory.to_owned(), vmlinux, core, modules: BTreeMap::new() })
    }

    /// The types that a module sees ("" is the kernel proper); `None` when the module has no BTF.
    ///
    /// # Errors
    /// When its file is no BTF.
    pub fn module(&mut self, module: &str) -> Result<Option<&Btf>, KernelTypesError> {
        if module.is_empty() {
            return Ok(Some(&self.core));
        }
        if !self.modules.contains_key(module) {
            let path = self.directory.join(module);
            let types = match fs::read(&path) {
                Err(_) => None,
                Ok(bytes) => Some(
                    Btf::parse(&self.vmlinux, Some(&bytes))
                        .map_err(|error| KernelTypesError::Unreadable { path, error })?,
                ),
            };
            self.modules.insert(module.to_owned(), types);
        }
        Ok(self.modules[module].as_ref())
    }

    /// Ids of `bpf_rdonly_cast` (since 6.2), and of the structure of words by which memory is seen through it; `None`
    /// where the kernel lacks one.
    #[must_use]
    pub fn rdonly_cast(&self) -> Option<(u32, u32)> {
        // What lies before the segment registers is general registers, a word each.
        let words = self.core.size_of("pt_regs").is_ok_and(|size| size >= WORDS);
        let ids = || Ok((self.core.function("bpf_rdonly_cast")?, self.core.structure("pt_regs")?));
        words.then(ids).and_then(|ids: Result<_, BtfError>| ids.ok())
    }

    /// The types of a module that [`KernelTypes::module`] has read.
    #[must_use]
    pub fn loaded(&self, module: &str) -> Option<&Btf> {
        if module.is_empty() { Some(&self.core) } else { self.modules.get(module)?.as_ref() }
    }
}

/// What could not be taken from BTF, as a sentence each; the probes then leave the figures out that
/// rest on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Why faults carry no slot, generation and search length.
    pub slots: Option<String>,
    /// Why PLE exits carry no window.
    pub window: Option<String>,
    /// Why translations carry no regions and search length.
    pub regions: Option<String>,
}

fn all_absent() -> Settings {
    Settings {
        vcpu_kvm: ABSENT,
        vcpu_id: ABSENT,
        vcpu_mmu: ABSENT,
        svm_vmcb: ABSENT,
        vmx_ple_window: ABSENT,
        kvm_userspace_pid: ABSENT,
        ..Settings::ZERO
    }
}

/// The settings for the modules at hand: `kvm`, its vendor module, and vhost's two; `None` where a
/// module is not loaded or has no BTF.
#[must_use]
pub fn settings(
    kvm: Option<&Btf>,
    vendor: Option<&Btf>,
    vhost: Option<&Btf>,
    vhost_iotlb: Option<&Btf>,
) -> (Settings, Gaps) {
    let mut settings = all_absent();
    let mut gaps = Gaps::default();
    let no_btf = |module: &str| format!("the module {module} is not loaded or has no BTF");
    match kvm.map(|btf| slots(btf, &mut settings)) {
        Some(Ok(())) => settings.walk_slots = 1,
        Some(Err(reason)) => gaps.slots = Some(reason),
        None => gaps.slots = Some(no_btf("kvm")),
    }
    match vendor.map(|btf| window(btf, &mut settings)) {
        Some(Ok(())) => {}
        Some(Err(error)) => gaps.window = Some(error.to_string()),
        None => gaps.window = Some(no_btf("kvm_amd or kvm_intel")),
    }
    match (vhost, vhost_iotlb) {
        (Some(vhost), Some(iotlb)) => match regions(vhost, iotlb, &mut settings) {
            Ok(()) => settings.walk_regions = 1,
            Err(reason) => gaps.regions = Some(reason),
        },
        _ => gaps.regions = Some(no_btf("vhost or vhost_iotlb")),
    }
    (settings, gaps)
}

/// Mask of a bit field within the 32-bit word that starts at `word`.
fn mask(field: Member, word: Member) -> Option<u32> {
    let shift = field.bit_offset.checked_sub(word.bit_offset)?;
    let ones = 1u32.checked_shl(field.bit_size)?.wrapping_sub(1);
    ones.checked_shl(shift)
}

fn slots(kvm: &Btf, settings: &mut Settings) -> Result<(), String> {
    let text = |error: BtfError| error.to_string();
    let offset = |structure, path| kvm.member(structure, path).map(Member::offset).map_err(text);
    settings.vcpu_kvm = offset("kvm_vcpu", "kvm")?;
    settings.vcpu_id = offset("kvm_vcpu", "vcpu_id")?;
    settings.kvm_userspace_pid = offset("kvm", "userspace_pid")?;
    // 5.17 and later: red-black trees of slots, and a last-used slot by pointer and generation.
    settings.vcpu_last_used_slot = offset("kvm_vcpu", "last_used_slot")?;
    settings.vcpu_last_used_slot_gen = offset("kvm_vcpu", "last_used_slot_gen")?;
    settings.kvm_memslots = offset("kvm", "memslots")?;
    settings.memslots_generation = offset("kvm_memslots", "generation")?;
    settings.memslots_gfn_tree = offset("kvm_memslots", "gfn_tree")?;
    settings.memslots_node_idx = offset("kvm_memslots", "node_idx")?;
    settings.slot_gfn_node = offset("kvm_memory_slot", "gfn_node")?;
    settings.slot_id = offset("kvm_memory_slot", "id")?;
    settings.slot_as_id = offset("kvm_memory_slot", "as_id")?;
    settings.slot_flags = offset("kvm_memory_slot", "flags")?;
    settings.slot_hva = offset("kvm_memory_slot", "userspace_addr")?;
    let follows = offset("kvm_memory_slot", "base_gfn")? == settings.slot_gfn_node + 48
        && offset("kvm_memory_slot", "npages")? == settings.slot_gfn_node + 56;
    if !follows || !rb_node_is_usual(kvm)? {
        return Err("struct kvm_memory_slot is laid out in a way that this memslot does not know".to_owned());
    }
    // The role says whether the MMU is direct, and which address space is in use; optional.
    settings.vcpu_mmu = offset("kvm_vcpu", "arch.mmu")?;
    for role in ["root_role", "mmu_role.base"] {
        let member = |name: &str| kvm.member("kvm_mmu", &format!("{role}{name}"));
        if let (Ok(word), Ok(direct), Ok(smm)) = (member(""), member(".direct"), member(".smm"))
            && let (Some(direct), Some(smm)) = (mask(direct, word), mask(smm, word))
        {
            settings.mmu_root_role = word.offset();
            settings.role_direct_mask = direct;
            settings.role_smm_mask = smm;
            return Ok(());
        }
    }
    settings.vcpu_mmu = ABSENT;
    Ok(())
}

/// `struct rb_node { parent_color, rb_right, rb_left }`, 8 bytes each.
fn rb_node_is_usual(btf: &Btf) -> Result<bool, String> {
    let place = |path| btf.member("rb_node", path).map(Member::offset).map_err(|error| error.to_string());
    let size = btf.size_of("rb_node").map_err(|error| error.to_string())?;
    Ok((place("__rb_parent_color")?, place("rb_right")?, place("rb_left")?, size) == (0, 8, 16, 24))
}

fn window(vendor: &Btf, settings: &mut Settings) -> Result<(), BtfError> {
    if let Ok(window) = vendor.member("vcpu_vmx", "ple_window") {
        settings.vmx_ple_window = window.offset();
        return Ok(());
    }
    let count = vendor.member("vmcb", "control.pause_filter_count")?.offset();
    settings.svm_vmcb = vendor.member("vcpu_svm", "vmcb")?.offset();
    settings.vmcb_pause_filter_count = count;
    Ok(())
}

fn regions(vhost: &Btf, iotlb: &Btf, settings: &mut Settings) -> Result<(), String> {
    let place = |btf: &Btf, structure, path| {
        btf.member(structure, path).map(Member::offset).map_err(|error: BtfError| error.to_string())
    };
    settings.vq_dev = place(vhost, "vhost_virtqueue", "dev")?;
    settings.dev_vqs = place(vhost, "vhost_dev", "vqs")?;
    settings.dev_nvqs = place(vhost, "vhost_dev", "nvqs")?;
    settings.dev_umem = place(vhost, "vhost_dev", "umem")?;
    settings.dev_iotlb = place(vhost, "vhost_dev", "iotlb")?;
    settings.iotlb_root = place(iotlb, "vhost_iotlb", "root")?;
    settings.iotlb_nmaps = place(iotlb, "vhost_iotlb", "nmaps")?;
    let expected = [
        ("rb", 0),
        ("start", 40),
        ("last", 48),
        ("size", 56),
        ("addr", 64),
        ("perm", 72),
        ("__subtree_last", 80),
    ];
    for (member, expected) in expected {
        if place(iotlb, "vhost_iotlb_map", member)? != expected {
            return Err(
                "struct vhost_iotlb_map is laid out in a way that this memslot does not know".to_owned()
            );
        }
    }
    if !rb_node_is_usual(iotlb)? {
        return Err("struct rb_node is laid out in a way that this memslot does not know".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Btf, Gaps, settings};
    use memslot_common::settings::ABSENT;

    /// BTF without a single type: a kernel whose structures are not the ones we know.
    fn unknown_kernel() -> Btf {
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for value in [24u32, 0, 0, 0, 1] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.push(0);
        Btf::parse(&bytes, None).unwrap()
    }

    #[test]
    fn an_unknown_kernel_is_left_unread_and_each_gap_says_which_structure_is_missing() {
        let btf = unknown_kernel();
        let (settings, gaps) = settings(Some(&btf), Some(&btf), Some(&btf), Some(&btf));
        assert_eq!((settings.walk_slots, settings.walk_regions), (0, 0));
        assert_eq!((settings.vcpu_kvm, settings.svm_vmcb, settings.vmx_ple_window), (ABSENT, ABSENT, ABSENT));
        let named = |gap: Option<String>, structure: &str| gap.is_some_and(|gap| gap.contains(structure));
        assert!(named(gaps.slots, "kvm_vcpu"));
        assert!(named(gaps.window, "vmcb"));
        assert!(named(gaps.regions, "vhost_virtqueue"));
    }

    #[test]
    fn a_module_that_is_not_loaded_is_a_gap_that_names_it() {
        let (_, Gaps { slots, window, regions }) = settings(None, None, None, None);
        let named = |gap: Option<String>, module: &str| gap.is_some_and(|gap| gap.contains(module));
        assert!(named(slots, "kvm") && named(window, "kvm_amd or kvm_intel") && named(regions, "vhost"));
    }
}
