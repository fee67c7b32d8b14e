//! What is missing and what it takes to get it.

use super::apt::Privilege;
use super::requirement::{Requirement, Source};
use super::{fleet, kernel, linker, peers, sources, toolchain};
use crate::lab::Series;
use std::fmt;

/// A requirement with the result of its check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The requirement's name.
    pub(crate) name: &'static str,
    /// What is there, or what is wrong.
    pub(crate) state: Result<String, String>,
    /// Where it comes from.
    pub(crate) source: Source,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Ask rustup, and take packages if it fails.
    Rustup,
    /// Refresh apt's lists.
    Update,
    /// Install packages.
    Install(Vec<&'static str>),
    /// Build bpf-linker.
    Linker,
    /// Fetch a kernel.
    Kernel(Series),
    /// Fetch a kernel's headers.
    Headers(Series),
    /// Fetch a kernel's source.
    KernelSource(Series),
    /// Fetch perf and bpftrace.
    Peers,
    /// Fetch Prometheus.
    Prometheus,
    /// Make a Python with packages.
    Python,
}

/// Checks every requirement.
pub(crate) fn inspect(requirements: &[Requirement]) -> Vec<Finding> {
    requirements
        .iter()
        .map(|requirement| Finding {
            name: requirement.name,
            state: (requirement.check)(),
            source: requirement.source,
        })
        .collect()
}

/// The steps that provide what `findings` miss. Without `rustup` its part falls to the distribution's packages.
pub(crate) fn steps(findings: &[Finding], rustup: bool) -> Vec<Step> {
    let mut packages = Vec::new();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let mut uses_apt = false;
    for finding in findings.iter().filter(|finding| finding.state.is_err()) {
        match finding.source {
            Source::RustupOr(_) if rustup => first.push(Step::Rustup),
            Source::RustupOr(names) | Source::Packages(names) => packages.extend(names),
            Source::CargoInstall => last.push(Step::Linker),
            Source::Kernel(series) => {
                uses_apt = true;
                last.push(Step::Kernel(series));
            }
            Source::Headers(series) => {
                uses_apt = true;
                last.push(Step::Headers(series));
            }
            Source::KernelCode(series) => {
                uses_apt = true;
                last.push(Step::KernelSource(series));
            }
            Source::Peers => {
                uses_apt = true;
                last.push(Step::Peers);
            }
            Source::Prometheus => {
                uses_apt = true;
                last.push(Step::Prometheus);
            }
            Source::Python => last.push(Step::Python),
        }
    }
    let mut steps = first;
    if uses_apt || !packages.is_empty() {
        steps.push(Step::Update);
    }
    if !packages.is_empty() {
        steps.push(Step::Install(packages));
    }
    steps.append(&mut last);
    steps
}

impl Step {
    /// The step as a person would type it, or describe it.
    pub(crate) fn describe(&self, privilege: Privilege) -> String {
        match self {
            Self::Rustup => {
                let packages = toolchain::PACKAGES.join(", ");
                let command = toolchain::rustup_command().map(|tool| tool.command_line()).unwrap_or_default();
                format!("{command} (if that fails: the packages {packages})")
            }
            Self::Update => privilege.update_command().command_line(),
            Self::Install(packages) => privilege.install_command(packages).command_line(),
            Self::Linker => linker::install_command().command_line(),
            Self::Kernel(series) => {
                let (prefix, suffix) = kernel::name_pattern(*series);
                let directory = series.directory();
                format!(
                    "apt-get download the newest {prefix}*{suffix}, unpacked into {}",
                    directory.display()
                )
            }
            Self::Headers(series) => format!(
                "apt-get download the headers of the {} kernel, unpacked into {}",
                series.name(),
                sources::headers_directory(*series).display()
            ),
            Self::KernelSource(series) => format!(
                "apt-get download linux-source-{} (150 MB), of which KVM and vhost go into {}",
                series.name(),
                sources::source_directory(*series).display()
            ),
            Self::Peers => format!(
                "apt-get download {} and their libraries, unpacked into {}",
                peers::packages(),
                peers::directory().display()
            ),
            Self::Prometheus => {
                format!("apt-get download prometheus, unpacked into {}", fleet::describe().0)
            }
            Self::Python => format!(
                "python3 -m venv {}, and there pip install {}",
                fleet::describe().1,
                fleet::python_packages()
            ),
        }
    }
}

/// The findings, one a line.
#[derive(Debug)]
pub(crate) struct Findings<'a>(pub(crate) &'a [Finding]);

impl fmt::Display for Findings<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in self.0 {
            match &finding.state {
                Ok(what) => writeln!(formatter, "there    {}: {what}", finding.name)?,
                Err(reason) => writeln!(formatter, "missing  {}: {reason}", finding.name)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(name: &'static str, state: Result<&str, &str>, source: Source) -> Finding {
        Finding { name, state: state.map(str::to_owned).map_err(str::to_owned), source }
    }

    fn bare() -> Vec<Finding> {
        vec![
            finding("toolchain", Err("not installed"), Source::RustupOr(&["rustc-x"])),
            finding("QEMU", Err("not installed"), Source::Packages(&["qemu-system-x86"])),
            finding("xz", Ok("xz 5.4"), Source::Packages(&["xz-utils"])),
            finding("linker", Err("it does not run"), Source::CargoInstall),
            finding("kernel", Err("boot/vmlinuz is damaged"), Source::Kernel(Series::V6_1)),
        ]
    }

    #[test]
    fn a_bare_machine_gets_everything_in_one_installation() {
        let install = |packages: &[&'static str]| Step::Install(packages.to_vec());
        assert_eq!(
            steps(&bare(), true),
            [
                Step::Rustup,
                Step::Update,
                install(&["qemu-system-x86"]),
                Step::Linker,
                Step::Kernel(Series::V6_1)
            ]
        );
        assert_eq!(
            steps(&bare(), false),
            [
                Step::Update,
                install(&["rustc-x", "qemu-system-x86"]),
                Step::Linker,
                Step::Kernel(Series::V6_1)
            ]
        );
    }

    #[test]
    fn what_is_there_needs_nothing() {
        let findings = [finding("xz", Ok("xz 5.4"), Source::Packages(&["xz-utils"]))];
        assert!(steps(&findings, true).is_empty());
        // A linker comes from crates.io: apt is left alone.
        let findings = [finding("linker", Err("not built yet"), Source::CargoInstall)];
        assert_eq!(steps(&findings, true), [Step::Linker]);
    }

    #[test]
    fn the_findings_read_well() {
        assert_eq!(
            Findings(&bare()).to_string(),
            "missing  toolchain: not installed\nmissing  QEMU: not installed\nthere    xz: xz 5.4\n\
             missing  linker: it does not run\nmissing  kernel: boot/vmlinuz is damaged\n"
        );
    }

    #[test]
    fn the_steps_can_be_typed() {
        let steps = [Step::Update, Step::Install(vec!["a"]), Step::Kernel(Series::V6_12)];
        let lines = steps.map(|step| step.describe(Privilege::None));
        assert_eq!(
            lines[0],
            "sudo env DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=120 update"
        );
        assert!(lines[1].ends_with("install --yes --no-install-recommends a"), "{}", lines[1]);
        assert!(
            lines[2]
                .starts_with("apt-get download the newest linux-image-6.12.*+deb12-amd64, unpacked into /")
        );
    }
}
