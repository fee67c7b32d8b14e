//! The machine that is measured: what a recording says of it.

use crate::recording::{Clock, Host};
use std::{collections::BTreeMap, fs, path::Path};

fn line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// `uname -r`
#[must_use]
pub fn kernel_release() -> String {
    line("/proc/sys/kernel/osrelease")
}

/// Can the kernel take a CPU from a task in the midst of a system call? `None` where it does not say: debugfs is not
/// mounted, or closed by lockdown.
#[must_use]
pub fn is_preemptible() -> Option<bool> {
    let version = line("/proc/sys/kernel/version");
    if version.split(' ').any(|word| matches!(word, "PREEMPT" | "PREEMPT_RT" | "PREEMPT_LAZY")) {
        return Some(true);
    }
    if !version.contains("PREEMPT_DYNAMIC") {
        return Some(false);
    }
    preempts(&line("/sys/kernel/debug/sched/preempt"))
}

/// What `/sys/kernel/debug/sched/preempt` says, with the mode in force in parentheses: `none voluntary (full) lazy`.
fn preempts(modes: &str) -> Option<bool> {
    let (_, rest) = modes.split_once('(')?;
    let (mode, _) = rest.split_once(')')?;
    Some(matches!(mode, "full" | "lazy"))
}

/// The machine as `/proc` and `/sys` describe it.
#[must_use]
pub fn host() -> Host {
    let cpuinfo = line("/proc/cpuinfo");
    let field = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let cpus = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let guest = cpuinfo
        .lines()
        .any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor"));
    let vendor = line("/sys/class/dmi/id/sys_vendor");
    let virtualised = guest.then(|| if vendor.is_empty() { "a hypervisor".to_owned() } else { vendor });
    Host {
        name: line("/proc/sys/kernel/hostname"),
        kernel: kernel_release(),
        kernel_version: line("/proc/sys/kernel/version"),
        cpu_model: field("model name"),
        cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
        virtualised,
        cpu_vendor: field("vendor_id"),
    }
}

/// Parameters of the KVM and vhost modules, `module.name` to value.
#[must_use]
pub fn module_parameters() -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    for module in ["kvm", "kvm_amd", "kvm_intel", "vhost", "vhost_net"] {
        let folder = Path::new("/sys/module").join(module).join("parameters");
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if let (Ok(name), Ok(value)) = (entry.file_name().into_string(), fs::read_to_string(entry.path()))
            {
                parameters.insert(format!("{module}.{name}"), value.trim().to_owned());
            }
        }
    }
    parameters
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of ours, which the call fills in.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if result != 0 {
        return 0;
    }
    let (seconds, rest) = (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds * 1_000_000_000 + rest
}

/// Both clocks, one right after the other.
#[must_use]
pub fn clock() -> Clock {
    Clock { monotonic: nanoseconds(libc::CLOCK_MONOTONIC), realtime: nanoseconds(libc::CLOCK_REALTIME) }
}

#[cfg(test)]
mod tests {
    use super::preempts;

    #[test]
    fn the_preemption_in_force_is_the_one_in_parentheses() {
        assert_eq!(preempts("full (lazy)"), Some(true));
        assert_eq!(preempts("none voluntary (full)"), Some(true));
        assert_eq!(preempts("none (voluntary) full"), Some(false));
        assert_eq!(preempts(""), None);
    }
}
