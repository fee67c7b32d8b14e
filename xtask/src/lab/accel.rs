//! Decides between the host's KVM and software emulation by trying KVM for real.
//!
//! That `/dev/kvm` opens proves nothing: guests may die on it at once, or not get virtualization of their own.

use super::{Request, kernel::Kernel, qemu::Mode};
use crate::command::Tool;
use crate::paths;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Accelerator {
    /// KVM where it really works, else emulation
    Auto,
    /// The host's KVM
    Kvm,
    /// Software emulation
    Tcg,
}

/// The remembered result of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Verdict {
    /// Host and QEMU that it holds for.
    machine: String,
    works: bool,
    /// Why it does not work, in one line.
    reason: String,
}

/// Chooses the mode for a request, and says why if that is not what one would expect.
///
/// # Errors
/// When the trial's own files cannot be written, or it was interrupted.
pub(crate) fn choose(request: &Request, kernel: &Kernel) -> Result<(Mode, Option<String>)> {
    if request.exact {
        return Ok((Mode::Exact, None));
    }
    match request.accelerator {
        Accelerator::Tcg => Ok((Mode::Emulated, None)),
        Accelerator::Kvm => Ok((Mode::Kvm, None)),
        Accelerator::Auto => {
            let verdict = verdict(kernel)?;
            if verdict.works {
                Ok((Mode::Kvm, None))
            } else {
                let note = format!(
                    "emulating the guest in software, for KVM does not work here: {}",
                    verdict.reason
                );
                Ok((Mode::Emulated, Some(note)))
            }
        }
    }
}

fn verdict(kernel: &Kernel) -> Result<Verdict> {
    let machine = machine()?;
    let path = paths::lab().join("kvm.json");
    if let Some(known) = remembered(&path, &machine) {
        return Ok(known);
    }
    let verdict = match trial(kernel)? {
        Ok(()) => Verdict { machine, works: true, reason: String::new() },
        Err(reason) => Verdict { machine, works: false, reason },
    };
    let text = serde_json::to_string_pretty(&verdict)?;
    fs::create_dir_all(paths::lab()).context("cannot create the lab's directory")?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(verdict)
}

fn remembered(path: &Path, machine: &str) -> Option<Verdict> {
    let verdict: Verdict = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (verdict.machine == machine).then_some(verdict)
}

/// What a verdict depends on: CPU, host kernel, QEMU, and whether the device is there for this user.
fn machine() -> Result<String> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find(|line| line.starts_with("model name")).unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let qemu = Tool::new(super::qemu::PROGRAM)
        .arg("--version")
        .remedy("Run `cargo xtask setup`, which installs QEMU.")
        .text()?;
    Ok(format!("{model} | {} | {} | {}", release.trim(), qemu.lines().next().unwrap_or_default(), can_open()))
}

fn can_open() -> bool {
    fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok()
}

/// Boots a guest by KVM and has it make a device for guests of its own. The inner error is the reason.
fn trial(kernel: &Kernel) -> Result<Result<(), String>> {
    if !can_open() {
        return Ok(Err("/dev/kvm is not there or may not be opened".to_owned()));
    }
    let mut request =
        Request::new(kernel.clone().into(), vec!["test".into(), "-c".into(), "/dev/kvm".into()]);
    request.accelerator = Accelerator::Kvm;
    request.time_limit = Duration::from_secs(60);
    let mut sink = std::io::sink();
    match super::attempt(&request, kernel, Mode::Kvm, &mut sink) {
        Ok(outcome) if outcome.exit_code == 0 => Ok(Ok(())),
        Ok(_) => {
            Ok(Err("its guests get no virtualization of their own (no nested virtualization)".to_owned()))
        }
        Err(error) => match error.downcast::<super::Failure>() {
            Ok(failure) => Ok(Err(failure.summary())),
            Err(error) => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_holds_only_for_its_machine() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kvm.json");
        assert_eq!(remembered(&path, "a"), None);
        let verdict = Verdict { machine: "a".into(), works: false, reason: "it dies".into() };
        fs::write(&path, serde_json::to_string(&verdict).unwrap()).unwrap();
        assert_eq!(remembered(&path, "a"), Some(verdict));
        assert_eq!(remembered(&path, "b"), None);
        fs::write(&path, "{").unwrap();
        assert_eq!(remembered(&path, "a"), None);
    }
}
