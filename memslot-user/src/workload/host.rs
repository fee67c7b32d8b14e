//! What of this host bears on the counts: the CPU's vendor, whether its pause filter is real, and the
//! parameters of the KVM and vhost modules.

use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Whose virtualisation KVM uses; it decides the name of the handler of PAUSE exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// SVM, `kvm_amd`
    Amd,
    /// VMX, `kvm_intel`
    Intel,
}

impl Vendor {
    /// The kernel function that handles a PAUSE exit.
    #[must_use]
    pub fn pause_handler(self) -> &'static str {
        match self {
            Self::Amd => "pause_interception",
            Self::Intel => "handle_pause",
        }
    }
}

/// The facts, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Which of KVM's vendor modules is loaded.
    pub vendor: Vendor,
    /// The CPU is QEMU's software emulation, which knows no pause filter: each PAUSE exits.
    pub tcg: bool,
    parameters: BTreeMap<String, String>,
}

/// Parameters that are read, as `module.name`.
const PARAMETERS: [&str; 8] = [
    "kvm.tdp_mmu",
    "kvm_amd.npt",
    "kvm_amd.pause_filter_count",
    "kvm_amd.pause_filter_thresh",
    "kvm_amd.pml",
    "kvm_intel.ept",
    "kvm_intel.ple_gap",
    "kvm_intel.pml",
];

impl Host {
    /// Reads the facts of the running host.
    #[must_use]
    pub fn read() -> Self {
        Self::from_sysfs(Path::new("/sys/module"), is_tcg())
    }

    /// The facts that a tree like `/sys/module` tells.
    fn from_sysfs(modules: &Path, tcg: bool) -> Self {
        let read = |name: &str| {
            let (module, parameter) = name.split_once('.')?;
            let path = modules.join(module).join("parameters").join(parameter);
            Some((name.to_owned(), std::fs::read_to_string(path).ok()?.trim().to_owned()))
        };
        let vendor = if modules.join("kvm_intel").exists() { Vendor::Intel } else { Vendor::Amd };
        Self { vendor, tcg, parameters: PARAMETERS.iter().filter_map(|&name| read(name)).collect() }
    }

    fn is(&self, parameter: &str, values: &[&str]) -> bool {
        self.parameters.get(parameter).is_some_and(|value| values.contains(&value.as_str()))
    }

    /// Why the number of page faults cannot be forecast exactly here; `None` where it can.
    #[must_use]
    pub fn page_faults_inexact(&self, dirty_logging: bool) -> Option<String> {
        let (paging, vendor, pml) = match self.vendor {
            Vendor::Amd => ("kvm_amd.npt", "NPT", "kvm_amd.pml"),
            Vendor::Intel => ("kvm_intel.ept", "EPT", "kvm_intel.pml"),
        };
        if self.is(paging, &["N", "0"]) {
            return Some(format!(
                "{vendor} is off ({paging}=N): with shadow paging the guest's own page faults are counted too"
            ));
        }
        if !self.is("kvm.tdp_mmu", &["Y", "1"]) {
            return Some(
                "KVM runs without the TDP MMU (kvm.tdp_mmu is not Y): a fault may map neighbouring pages too"
                    .to_owned(),
            );
        }
        if dirty_logging && self.is(pml, &["Y", "1"]) {
            return Some(format!(
                "the CPU logs dirty pages itself ({pml}=Y): a write to a logged page causes no fault"
            ));
        }
        None
    }

    /// How many of `pauses` exit, and why that is not certain.
    #[must_use]
    pub fn pause_exits(&self, pauses: u64) -> (u64, Option<String>) {
        let off = match self.vendor {
            Vendor::Amd => {
                self.is("kvm_amd.pause_filter_count", &["0"])
                    || self.is("kvm_amd.pause_filter_thresh", &["0"])
            }
            Vendor::Intel => self.is("kvm_intel.ple_gap", &["0"]),
        };
        if off {
            return (0, None);
        }
        let reason = (!self.tcg).then(|| {
            "the CPU's pause filter decides which PAUSE exits: the count is an upper bound".to_owned()
        });
        (pauses, reason)
    }
}

/// Whether CPUID names QEMU's TCG as the hypervisor.
fn is_tcg() -> bool {
    use std::arch::x86_64::__cpuid;
    const HYPERVISOR_PRESENT: u32 = 1 << 31;
    if __cpuid(1).ecx & HYPERVISOR_PRESENT == 0 {
        return false;
    }
    let leaf = __cpuid(0x4000_0000);
    [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat() == b"TCGTCGTCGTCG"
}

/// `vhost.max_mem_regions` or the like, if vhost is loaded and says.
pub(crate) fn vhost_limit(parameter: &str) -> Option<u64> {
    std::fs::read_to_string(format!("/sys/module/vhost/parameters/{parameter}")).ok()?.trim().parse().ok()
}

/// Whether /proc/cpuinfo shows SVM or VMX; true where it cannot be read.
pub(crate) fn cpu_virtualises() -> bool {
    std::fs::read_to_string("/proc/cpuinfo").map_or(true, |text| has_virtualisation_flag(&text))
}

fn has_virtualisation_flag(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_whitespace().any(|flag| flag == "svm" || flag == "vmx"))
}

#[cfg(test)]
mod tests {
    use super::{Host, Vendor, has_virtualisation_flag};

    fn host(tcg: bool, parameters: &[(&str, &str)]) -> Host {
        let root = tempfile::tempdir().unwrap();
        for (name, value) in parameters {
            let (module, parameter) = name.split_once('.').unwrap();
            let directory = root.path().join(module).join("parameters");
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join(parameter), format!("{value}\n")).unwrap();
        }
        Host::from_sysfs(root.path(), tcg)
    }

    #[test]
    fn faults_are_exact_with_the_tdp_mmu_only() {
        let amd = [("kvm.tdp_mmu", "Y"), ("kvm_amd.npt", "Y")];
        assert_eq!(host(false, &amd).page_faults_inexact(true), None);
        assert_eq!(host(false, &amd).vendor, Vendor::Amd);
        let shadow = [("kvm.tdp_mmu", "Y"), ("kvm_amd.npt", "N")];
        assert!(host(false, &shadow).page_faults_inexact(false).unwrap().contains("NPT is off"));
        let old = [("kvm.tdp_mmu", "N"), ("kvm_intel.ept", "Y")];
        assert!(host(false, &old).page_faults_inexact(false).unwrap().contains("TDP MMU"));
        assert!(host(false, &[("kvm_amd.npt", "Y")]).page_faults_inexact(false).is_some());
    }

    #[test]
    fn hardware_dirty_logging_takes_the_exactness_from_dirty_refaults_only() {
        let intel = host(false, &[("kvm.tdp_mmu", "Y"), ("kvm_intel.ept", "Y"), ("kvm_intel.pml", "Y")]);
        assert_eq!(intel.page_faults_inexact(false), None);
        assert!(intel.page_faults_inexact(true).unwrap().contains("kvm_intel.pml=Y"));
    }

    #[test]
    fn pauses_all_exit_under_emulation_none_without_the_filter_and_some_on_hardware() {
        let amd = [("kvm_amd.pause_filter_count", "3000"), ("kvm_amd.pause_filter_thresh", "128")];
        assert_eq!(host(true, &amd).pause_exits(10), (10, None));
        let (bound, reason) = host(false, &amd).pause_exits(10);
        assert_eq!(bound, 10);
        assert!(reason.unwrap().contains("upper bound"));
        assert_eq!(host(true, &[("kvm_amd.pause_filter_count", "0")]).pause_exits(10), (0, None));
        assert_eq!(host(false, &[("kvm_intel.ple_gap", "0")]).pause_exits(10), (0, None));
    }

    #[test]
    fn flags_are_whole_words() {
        assert!(has_virtualisation_flag("model name: x\nflags\t\t: fpu svm sse\n"));
        assert!(!has_virtualisation_flag("flags\t\t: fpu svm_lock vmxoff\n"));
    }
}
