//! When a recording ends.

use anyhow::Context;
use std::{
    fs,
    path::Path,
    process::{Command, ExitStatus},
    time::Duration,
};
use tokio::{
    process::Child,
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep_until},
};

/// How often the VM's process is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// What ends a recording; whichever comes first.
pub(super) struct Stop {
    pub(super) duration: Option<Duration>,
    pub(super) vm: Option<u32>,
    pub(super) command: Option<Command>,
}

/// What did end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Duration,
    Signal,
    VmGone,
    Command(ExitStatus),
}

impl Ended {
    /// For `meta.json`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Duration => "duration",
            Self::Signal => "signal",
            Self::VmGone => "vm_gone",
            Self::Command(_) => "command",
        }
    }
}

pub(super) fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Does the process hold a VM? One whose files we may not look at may.
pub(super) fn has_vm(pid: u32) -> bool {
    vm_among_files(pid).unwrap_or(true)
}

/// Does the process hold a VM, as far as we may look?
pub(super) fn holds_vm(pid: u32) -> bool {
    vm_among_files(pid).unwrap_or(false)
}

fn vm_among_files(pid: u32) -> Option<bool> {
    let mut files = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).ok()?.flatten();
    let has_vm = files
        .any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == "anon_inode:kvm-vm"));
    Some(has_vm)
}

/// Is there such a program? Asked before anything is written.
pub(super) fn can_start(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

impl Stop {
    /// Starts the command, if there is one, and waits for whichever end comes first.
    pub(super) async fn wait(self) -> anyhow::Result<Ended> {
        // Before the command, so that a Ctrl-C meant for it does not end us without a word.
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut child = match self.command {
            None => None,
            Some(command) => {
                let program = command.get_program().to_string_lossy().into_owned();
                // It was started for the recording and ends with it, also when that fails.
                let child = tokio::process::Command::from(command).kill_on_drop(true).spawn();
                Some(child.with_context(|| format!("cannot start {program}"))?)
            }
        };
        let deadline = self.duration.map(|duration| Instant::now() + duration);
        let ended = tokio::select! {
            biased;
            status = exit_of(&mut child) => Ended::Command(status?),
            _ = interrupt.recv() => Ended::Signal,
            _ = terminate.recv() => Ended::Signal,
            () = passed(deadline) => Ended::Duration,
            () = gone(self.vm) => Ended::VmGone,
        };
        if let (Some(child), false) = (&mut child, matches!(ended, Ended::Command(_))) {
            child.start_kill().ok();
            child.wait().await.ok();
        }
        Ok(ended)
    }
}

async fn exit_of(child: &mut Option<Child>) -> anyhow::Result<ExitStatus> {
    match child {
        Some(child) => child.wait().await.context("cannot wait for the command"),
        None => std::future::pending().await,
    }
}

async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

async fn gone(vm: Option<u32>) {
    let Some(pid) = vm else { return std::future::pending().await };
    let mut look = tokio::time::interval(LOOK);
    while is_alive(pid) {
        look.tick().await;
    }
}
