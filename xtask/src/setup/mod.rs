//! `cargo xtask setup`: finds what building and the lab need, and gets what is missing.

mod apt;
pub(crate) mod fleet;
mod kernel;
mod linker;
pub(crate) mod peers;
mod plan;
mod requirement;
mod sources;
mod toolchain;
mod version;

pub(crate) use sources::{headers_directory, source_directory};
pub(crate) use toolchain::Toolchain;

use crate::lab::Series;
use crate::progress::step;
use anyhow::{Result, anyhow, ensure};
use apt::Privilege;
use plan::{Finding, Findings, Step};
use requirement::{BROWSER, FLEET, FOR_MODULES, PEERS, REQUIREMENTS, Requirement, Source};
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Find, or install, what building and the lab need
///
/// What is there is left alone, and when nothing is missing no network is used. Packages are installed by apt as root
/// or by sudo; bpf-linker and the lab's two kernels go under target/.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only say what is missing and what would be done
    #[arg(long)]
    dry_run: bool,
}

/// Packages are missing and there is no right to install them; shows the commands to type.
#[derive(Debug)]
pub(crate) struct NoPrivilege {
    commands: Vec<String>,
}

impl fmt::Display for NoPrivilege {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "this needs root, and there is no sudo to be had. As root, type")?;
        for command in &self.commands {
            writeln!(formatter, "    {command}")?;
        }
        write!(formatter, "then run `cargo xtask setup` again.")
    }
}

impl std::error::Error for NoPrivilege {}

impl Args {
    /// Prints what is there and what is missing, and gets it.
    ///
    /// # Errors
    /// [`NoPrivilege`], or what failed.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let findings = plan::inspect(REQUIREMENTS);
        print!("{}", Findings(&findings));
        println!("Fetched when a command builds modules for a lab kernel:");
        print!("{}", Findings(&plan::inspect(FOR_MODULES)));
        println!("Fetched for the tests of what is exported and served:");
        print!("{}", Findings(&plan::inspect(FLEET)));
        let steps = plan::steps(&findings, has_rustup());
        if steps.is_empty() {
            println!("Nothing to do.");
        } else if self.dry_run {
            print!("{}", announcement(&steps, Privilege::detect()));
        } else {
            get(&findings, REQUIREMENTS)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Gets what is missing; says nothing when all is there.
///
/// # Errors
/// [`NoPrivilege`], or what failed.
pub(crate) fn ensure() -> Result<()> {
    ensure_all(REQUIREMENTS)
}

/// Gets what building a module for the kernel of `series` takes; `with_source` also its own KVM's and vhost's source.
///
/// # Errors
/// [`NoPrivilege`], or what failed; also that the archive no longer has the version of the kernel that is there.
pub(crate) fn ensure_for_modules(series: Series, with_source: bool) -> Result<()> {
    // The kernel says what version its headers must be of.
    let kernel = |source| source == Source::Kernel(series);
    let rest = |source| match source {
        Source::Headers(of) => of == series,
        Source::KernelCode(of) => of == series && with_source,
        Source::Packages(_) => true,
        Source::Kernel(_) | Source::RustupOr(_) | Source::CargoInstall => false,
        Source::Peers | Source::Prometheus | Source::Python => false,
    };
    let chosen = |from: &[Requirement], wanted: &dyn Fn(Source) -> bool| -> Vec<Requirement> {
        from.iter().filter(|requirement| wanted(requirement.source)).copied().collect()
    };
    ensure_all(&chosen(REQUIREMENTS, &kernel))?;
    ensure_all(&chosen(FOR_MODULES, &rest))
}

/// Gets perf and bpftrace for the lab, which only comparisons need; says nothing when they are there.
///
/// # Errors
/// [`NoPrivilege`], or what failed.
pub(crate) fn ensure_peers() -> Result<()> {
    ensure_all(PEERS)
}

/// Gets Prometheus, DuckDB, polars and pyarrow, which only tests need; says nothing when they are there.
///
/// # Errors
/// [`NoPrivilege`], or what failed.
pub(crate) fn ensure_fleet() -> Result<()> {
    ensure_all(FLEET)
}

/// Gets the browser that reports are tested in; says nothing when it is there.
///
/// # Errors
/// [`NoPrivilege`], or what failed.
pub(crate) fn ensure_browser() -> Result<()> {
    ensure_all(BROWSER)
}

fn ensure_all(requirements: &[Requirement]) -> Result<()> {
    let findings = plan::inspect(requirements);
    let missing: Vec<Finding> = findings.into_iter().filter(|finding| finding.state.is_err()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    // The standard output belongs to whoever called.
    eprint!("{}", Findings(&missing));
    get(&missing, requirements)
}

/// The toolchain for the probes.
///
/// # Errors
/// Why there is none, with the remedy.
pub(crate) fn toolchain() -> Result<Toolchain> {
    toolchain::find()
        .map_err(|reason| anyhow!("no Rust toolchain builds for BPF: {reason}; run `cargo xtask setup`"))
}

/// The linker for the probes.
///
/// # Errors
/// Why there is none, with the remedy.
pub(crate) fn linker() -> Result<PathBuf> {
    linker::find().map_err(|reason| anyhow!("bpf-linker is missing: {reason}; run `cargo xtask setup`"))
}

fn has_rustup() -> bool {
    toolchain::rustup_command().is_some()
}

fn announcement(steps: &[Step], privilege: Privilege) -> String {
    let lines: Vec<String> = steps.iter().map(|step| format!("    {}\n", step.describe(privilege))).collect();
    format!("To do:\n{}", lines.concat())
}

fn get(findings: &[Finding], requirements: &[Requirement]) -> Result<()> {
    let privilege = Privilege::detect();
    let mut steps = plan::steps(findings, has_rustup());
    eprint!("{}", announcement(&steps, privilege));
    if steps.contains(&Step::Rustup) && !try_rustup() {
        // Whatever rustup could not do falls to the packages.
        steps = plan::steps(findings, false);
    }
    steps.retain(|step| *step != Step::Rustup);
    if privilege == Privilege::None {
        steps = unprivileged(steps)?;
    } else if steps.iter().any(|step| matches!(step, Step::Update | Step::Install(_))) {
        privilege.confirm()?;
    }
    for step in &steps {
        perform(step, privilege)?;
    }
    verify(requirements)
}

/// Whether rustup got a toolchain that does.
fn try_rustup() -> bool {
    let Some(tool) = toolchain::rustup_command() else { return false };
    match step("asking rustup for a nightly with rust-src", || tool.output()) {
        Ok(_) => match toolchain::find() {
            Ok(_) => return true,
            Err(reason) => eprintln!("xtask: what rustup got does not do: {reason}"),
        },
        Err(error) => eprintln!("xtask: {error:#}"),
    }
    eprintln!("xtask: taking the distribution's toolchain instead");
    false
}

/// What can be done without root, or the commands that cannot.
fn unprivileged(steps: Vec<Step>) -> Result<Vec<Step>> {
    let lists_suffice = steps.iter().all(|step| match step {
        Step::Kernel(series) => kernel::newest(*series).is_some(),
        Step::Peers => peers::is_listed(),
        Step::Prometheus => fleet::is_listed(),
        Step::Install(_) => false,
        Step::Rustup
        | Step::Update
        | Step::Linker
        | Step::Python
        | Step::Headers(_)
        | Step::KernelSource(_) => true,
    });
    let (root, rest): (Vec<Step>, Vec<Step>) =
        steps.into_iter().partition(|step| matches!(step, Step::Update | Step::Install(_)));
    if lists_suffice {
        return Ok(rest);
    }
    let commands = root.iter().map(|step| step.describe(Privilege::Root)).collect();
    Err(NoPrivilege { commands }.into())
}

fn perform(what: &Step, privilege: Privilege) -> Result<()> {
    match what {
        Step::Rustup => Ok(()),
        Step::Update => step("refreshing apt's lists", || privilege.update_command().output()).map(drop),
        Step::Install(packages) => {
            let message = format!("installing {}", packages.join(", "));
            step(&message, || privilege.install_command(packages).output()).map(drop)
        }
        Step::Linker => {
            step("building bpf-linker (a minute or two)", || linker::install_command().output()).map(drop)
        }
        Step::Kernel(series) => {
            let message = format!("fetching and unpacking a {} kernel", series.name());
            step(&message, || kernel::fetch(*series))
        }
        Step::Headers(series) => {
            let message = format!("fetching and unpacking the headers of the {} kernel", series.name());
            step(&message, || sources::fetch_headers(*series))
        }
        Step::KernelSource(series) => {
            let message = format!("fetching and unpacking the source of the {} kernel", series.name());
            step(&message, || sources::fetch_source(*series))
        }
        Step::Peers => step("fetching and unpacking perf and bpftrace", peers::fetch),
        Step::Prometheus => step("fetching and unpacking Prometheus", fleet::fetch_prometheus),
        Step::Python => step("installing DuckDB, polars and pyarrow", fleet::make_python),
    }
}

/// Checks again: a step that ends well has not necessarily helped.
fn verify(requirements: &[Requirement]) -> Result<()> {
    let missing: Vec<String> = plan::inspect(requirements)
        .into_iter()
        .filter_map(|finding| finding.state.err().map(|reason| format!("{}: {reason}", finding.name)))
        .collect();
    ensure!(missing.is_empty(), "still missing after all that:\n    {}", missing.join("\n    "));
    eprintln!("xtask: all is there");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_root_the_commands_to_type_are_shown() {
        let steps = vec![Step::Update, Step::Install(vec!["busybox-static", "kmod"]), Step::Linker];
        let error = unprivileged(steps).unwrap_err();
        assert!(error.is::<NoPrivilege>());
        let apt = "env DEBIAN_FRONTEND=noninteractive apt-get --option DPkg::Lock::Timeout=120";
        assert_eq!(
            error.to_string(),
            format!(
                "this needs root, and there is no sudo to be had. As root, type\n    {apt} update\n    {apt} --option \
                 Dpkg::Options::=--force-confold install --yes --no-install-recommends busybox-static kmod\n\
                 then run `cargo xtask setup` again."
            )
        );
    }

    #[test]
    fn without_root_what_needs_none_is_still_done() {
        assert_eq!(unprivileged(vec![Step::Linker]).unwrap(), [Step::Linker]);
    }
}
