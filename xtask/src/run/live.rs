//! Recording this host itself.

use crate::command::Tool;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::{collections::BTreeMap, fs, path::Path, time::Duration};

/// Whether this host can be recorded.
pub(super) enum Verdict {
    /// At least one probe attaches.
    Works,
    /// None does; why.
    Refused(String),
    /// The lab was asked for; nobody looked.
    Asked,
}

/// What `memslot doctor --json` says, as far as it matters here.
#[derive(Deserialize)]
struct Doctor {
    probes: BTreeMap<String, Probe>,
}

#[derive(Deserialize)]
struct Probe {
    status: String,
    notes: Vec<String>,
}

/// Asks `memslot doctor`, which really attaches.
pub(super) fn look(memslot: &Path) -> Result<Verdict> {
    let (code, output, error) = Tool::new(memslot).args(["doctor", "--json"]).answer()?;
    if code == 2 {
        return Ok(Verdict::Refused(error.trim_start_matches("memslot: ").to_owned()));
    }
    let doctor: Doctor =
        serde_json::from_str(&output).context("`memslot doctor --json` printed something else")?;
    if doctor.probes.values().any(|probe| probe.status != "missing") {
        return Ok(Verdict::Works);
    }
    let reasons = doctor
        .probes
        .into_iter()
        .filter_map(|(name, probe)| Some(format!("{name}: {}", probe.notes.into_iter().next_back()?)));
    Ok(Verdict::Refused(reasons.collect::<Vec<_>>().join("; ")))
}

/// Does any process hold a VM?
pub(super) fn has_vms() -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| fs::read_dir(process.path().join("fd")).ok()).any(|files| {
        files.flatten().any(|file| {
            fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:kvm-vm")
        })
    })
}

/// Records the host's VMs, or one of them; whether the recording is whole.
pub(super) fn record(memslot: &Path, output: &Path, duration: Duration, vm: Option<u32>) -> Result<bool> {
    let mut command = Tool::new(memslot).args([
        "record",
        "--label",
        "host",
        "--duration",
        &format!("{}ms", duration.as_millis()),
    ]);
    command = command.arg("--output").arg(output);
    if let Some(pid) = vm {
        command = command.args(["--vm", &pid.to_string()]);
    }
    succeeds(&command)
}

/// Runs a command whose exit code 1 means that something is missing or lost; whether it is 0.
pub(super) fn succeeds(command: &Tool) -> Result<bool> {
    let code = command.exit_code()?;
    ensure!(code < 2, "`{}` failed; the reason is above", command.command_line());
    Ok(code == 0)
}
