//! Debian's package manager, without questions and with root's rights where they can be had.

use crate::command::{Tool, find_program};
use anyhow::Result;
use std::io::{IsTerminal as _, stdin};
use std::path::Path;

const OFFLINE: &str =
    "See that the network and /etc/apt/sources.list are in order, then run `cargo xtask setup` again.";

/// By what right packages are installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// We are root.
    Root,
    /// By sudo.
    Sudo,
    /// Not at all.
    None,
}

impl Privilege {
    /// Finds out without asking for a password.
    pub(crate) fn detect() -> Self {
        // SAFETY: geteuid has no preconditions and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            return Self::Root;
        }
        if find_program("sudo").is_none() {
            return Self::None;
        }
        let free = Tool::new("sudo").args(["--non-interactive", "true"]).output().is_ok();
        // On a terminal sudo can ask.
        if free || stdin().is_terminal() { Self::Sudo } else { Self::None }
    }

    /// Has sudo ask for its password now, where nothing else writes to the terminal.
    ///
    /// # Errors
    /// When it is refused.
    pub(crate) fn confirm(self) -> Result<()> {
        match self {
            Self::Sudo => Tool::new("sudo").arg("--validate").run(),
            Self::Root | Self::None => Ok(()),
        }
    }

    fn apt_get(self) -> Tool {
        let tool = match self {
            Self::Root => Tool::new("env"),
            // The variable must get past sudo.
            Self::Sudo | Self::None => Tool::new("sudo").arg("env"),
        };
        tool.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "--option", "DPkg::Lock::Timeout=120"])
    }

    /// Refreshes apt's lists.
    pub(crate) fn update_command(self) -> Tool {
        self.apt_get().arg("update").remedy(OFFLINE)
    }

    /// Installs packages.
    pub(crate) fn install_command(self, packages: &[&str]) -> Tool {
        self.apt_get()
            .args(["--option", "Dpkg::Options::=--force-confold"])
            .args(["install", "--yes", "--no-install-recommends"])
            .args(packages)
            .remedy(OFFLINE)
    }
}

/// Downloads packages into `directory` without installing them.
///
/// # Errors
/// When apt fails.
pub(crate) fn download(packages: &[&str], directory: &Path) -> Result<()> {
    Tool::new("apt-get")
        .arg("download")
        .args(packages)
        .directory(directory)
        .remedy(OFFLINE)
        .output()
        .map(drop)
}

/// The packages that `packages` need to work, and they themselves.
///
/// # Errors
/// When apt fails.
pub(crate) fn with_dependencies(packages: &[&str]) -> Result<Vec<String>> {
    let left_out = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"];
    let text = Tool::new("apt-cache")
        .args(["depends", "--recurse"])
        .args(left_out.map(|kind| format!("--no-{kind}")))
        .args(packages)
        .remedy(OFFLINE)
        .text()?;
    // A package stands at the start of its line, what it needs below it; <such> are virtual.
    let mut names: Vec<String> = text
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_alphanumeric()))
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    Ok(names)
}

/// Whether apt knows where to get the package.
pub(crate) fn has_candidate(package: &str) -> bool {
    Tool::new("apt-cache").args(["madison", package]).text().is_ok_and(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_can_be_typed() {
        assert_eq!(
            Privilege::Sudo.install_command(&["a", "b"]).command_line(),
            "sudo env DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=120 --option \
             Dpkg::Options::=--force-confold install --yes --no-install-recommends a b"
        );
        assert_eq!(
            Privilege::Root.update_command().command_line(),
            "env DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=120 update"
        );
    }
}
