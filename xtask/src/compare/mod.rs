//! `cargo xtask compare`: boots two kernels in turn, records the same workloads on both, and compares.

mod boot;
mod plan;

use crate::command::Tool;
use crate::lab::{KernelChoice, Request};
use crate::run::entries;
use crate::run::scenario::{self, SCENARIOS, Scenario};
use crate::{build, paths, setup};
use anyhow::{Context, Result, ensure};
use boot::Boot;
use plan::{Plan, Subject};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Boot two kernels in the lab in turn, record the same workloads on both, and compare
///
/// KERNEL is a series (6.1, 6.12), SERIES+DIR (the stock kernel with the modules of DIR in place of its own), a .deb,
/// host, or BZIMAGE+MODULES. The boots go before, after, after, before. Interrupted, the same command goes on where it
/// was. A kernel that fails is reported with its console, and the other side's boots go on.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// The kernel before the change
    #[arg(long, value_name = "KERNEL")]
    before: String,
    /// The kernel after it
    #[arg(long, value_name = "KERNEL")]
    after: String,
    /// Another argument for the kernel before, e.g. kvm_amd.pause_filter_count=300 for a module's parameter; may be repeated
    #[arg(long, value_name = "ARGUMENT")]
    before_args: Vec<String>,
    /// Another argument for the kernel after it; may be repeated
    #[arg(long, value_name = "ARGUMENT")]
    after_args: Vec<String>,
    /// Only this workload, e.g. slots-53, regions-509, ple-overcommit; may be repeated
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Boots of each kernel [default: 7, and 2 with --exact]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,
    /// Count instructions for time: nothing varies, and one run tells as much as ten. Leaves PLE out, which takes two CPUs
    #[arg(long)]
    exact: bool,
    /// Also predict, from the recordings before alone, what this search would take, and hold it against the recordings
    /// after: an engine of `memslot replay`, and whose last-used slot it asks, e.g. linear, rbtree:off
    #[arg(long, value_name = "ENGINE[:WHOSE]")]
    predict: Option<String>,
    /// Where recordings, consoles, compare.json, compare.md and charts go [default: target/compare]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Options of `memslot compare`, e.g. --fail-on slower:5%
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

const EXIT_CODES: &str = "\
Exit codes: 0 no change for the worse; 1 slower, not comparable, or too few runs to tell (-- --fail-on says otherwise); \
2 a kernel failed or lacks what a workload takes, or another error.";

/// A side of the comparison.
struct Side {
    name: &'static str,
    kernel: KernelChoice,
    arguments: Vec<String>,
    /// It is booted no more.
    failed: bool,
}

impl Side {
    fn new(name: &'static str, kernel: &str, arguments: &[String]) -> Result<(Self, Subject)> {
        let choice = KernelChoice::from_arguments(kernel, None)?;
        let found = choice.locate().with_context(|| format!("the kernel {name} cannot be booted"))?;
        let files = std::iter::once(&found.image).chain(&found.replacements);
        let subject = Subject {
            kernel: kernel.to_owned(),
            arguments: arguments.to_vec(),
            files: files.map(|file| plan::identity(file)).collect::<Result<_>>()?,
        };
        Ok((Self { name, kernel: choice, arguments: arguments.to_vec(), failed: false }, subject))
    }
}

impl Args {
    /// Boots, records and compares.
    ///
    /// # Errors
    /// When the kernels cannot be found, or nothing could be recorded of a side.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let scenarios = self.scenarios()?;
        setup::ensure()?;
        let memslot = build::static_binary(&build::probes()?)?;
        let (before, subject_before) = Side::new("before", &self.before, &self.before_args)?;
        let (after, subject_after) = Side::new("after", &self.after, &self.after_args)?;
        let out = self.out.clone().unwrap_or_else(|| paths::target().join("compare"));
        fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
        let out = std::path::absolute(out)?;
        let plan = Plan {
            workloads: scenarios.iter().map(|scenario| scenario.label.to_owned()).collect(),
            exact: self.exact,
            engines_timed: self.predict.is_some(),
            memslot: plan::identity(&memslot)?,
            before: subject_before,
            after: subject_after,
        };
        plan.resume(&out)?;
        let whole = self.boot_all(&mut [before, after], &scenarios, &memslot, &out)?;
        let mut options = self.options.clone();
        if let Some(search) = &self.predict {
            options.splice(0..0, ["--predict".to_owned(), search.clone()]);
        }
        let code = compare(&memslot, &out, &options, whole)?;
        eprintln!("xtask: compare.json, compare.md and charts are in {}", out.display());
        Ok(code)
    }

    fn scenarios(&self) -> Result<Vec<&'static Scenario>> {
        for name in &self.workload {
            let known: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.label).collect();
            ensure!(
                known.contains(&name.as_str()),
                "there is no workload {name}; there are {}",
                known.join(", ")
            );
        }
        let wanted = |scenario: &&Scenario| {
            (self.workload.is_empty() || self.workload.iter().any(|name| name == scenario.label))
                && !(self.exact && scenario.needs_cpus())
        };
        let found: Vec<&Scenario> = SCENARIOS.iter().filter(wanted).collect();
        ensure!(!found.is_empty(), "PLE exits take two CPUs, and the exact mode has one; leave out --exact");
        Ok(found)
    }

    /// Makes the boots that are not there yet; whether all recordings are.
    fn boot_all(
        &self,
        sides: &mut [Side; 2],
        scenarios: &[&Scenario],
        memslot: &Path,
        out: &Path,
    ) -> Result<bool> {
        let runs = self.runs.unwrap_or(if self.exact { 2 } else { 7 });
        let folder = |name: &str, number: u32| out.join(format!("{name}-{number}"));
        let mut to_do: Vec<_> = order(runs).collect();
        to_do.retain(|(number, side)| !folder(sides[*side].name, *number).is_dir());
        let start = Instant::now();
        for (done, &(number, side)) in to_do.iter().enumerate() {
            let side = &mut sides[side];
            if side.failed {
                continue;
            }
            let name = format!("{} run {number} of {runs}", side.name);
            eprintln!(
                "xtask: {name}: Linux {}{}",
                side.kernel,
                remaining(start.elapsed(), done, to_do.len())
            );
            // By the clock of one boot: it is the recordings of the first that are replayed.
            let time_engines = self.predict.is_some() && side.name == "before" && number == 1;
            let script = scenario::script(scenarios, time_engines);
            let mut request = Request::new(side.kernel.clone(), vec!["sh".into(), "-c".into(), script]);
            if self.exact {
                request = request.exact();
            }
            request.memslot = Some(memslot.to_owned());
            request.kernel_arguments.clone_from(&side.arguments);
            let booted = boot::boot(&name, &request, scenarios, &folder(side.name, number))?;
            side.failed = booted == Boot::Failed;
        }
        let whole = |number: u32, side: usize| {
            let folder = folder(sides[side].name, number);
            // Where something is missing, its console lies beside it.
            folder.is_dir() && !folder.with_extension("console").exists()
        };
        Ok(order(runs).all(|(number, side)| whole(number, side)))
    }
}

/// How long the rest will take, once a boot tells.
fn remaining(elapsed: Duration, done: usize, all: usize) -> String {
    match u32::try_from(done) {
        Ok(done) if done > 0 => {
            let left = u32::try_from(all).unwrap_or(u32::MAX).saturating_sub(done);
            format!(", about {} s to go", (elapsed / done * left).as_secs())
        }
        _ => String::new(),
    }
}

/// Number of the run and the side: before, after, after, before, so that a drift weighs on both alike.
fn order(runs: u32) -> impl Iterator<Item = (u32, usize)> {
    (1..=runs).flat_map(|run| if run % 2 == 1 { [(run, 0), (run, 1)] } else { [(run, 1), (run, 0)] })
}

/// Compares all runs that are there. Names are relative to `out`, for they go into what is published.
fn compare(memslot: &Path, out: &Path, options: &[String], whole: bool) -> Result<ExitCode> {
    let mut command = Tool::new(memslot).arg("compare").directory(out);
    for side in ["before", "after"] {
        let recordings = recordings(out, side)?;
        ensure!(!recordings.is_empty(), "nothing was recorded of the kernel {side}; the reason is above");
        command = command.arg(format!("--{side}")).args(recordings);
    }
    let code = command.args(["--out", "."]).args(options).exit_code()?;
    if !whole {
        eprintln!("xtask: not all boots left all recordings; the figures are of those that did");
        return Ok(ExitCode::from(2));
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(2)))
}

/// A side's finished boots in `out`, by number.
fn boots(out: &Path, side: &str) -> Result<BTreeMap<u32, PathBuf>> {
    let mut found = BTreeMap::new();
    for boot in entries(out)? {
        let name = boot.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.strip_prefix(side).and_then(|rest| rest.strip_prefix('-')?.parse().ok());
        if let Some(number) = number.filter(|_| boot.is_dir()) {
            found.insert(number, boot);
        }
    }
    Ok(found)
}

/// The recordings of a side's finished boots, relative to `out`, in order.
fn recordings(out: &Path, side: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for boot in boots(out, side)?.into_values() {
        let mut recordings = entries(&boot)?;
        recordings.retain(|path| path.join("meta.json").is_file());
        recordings.sort();
        found.extend(recordings.iter().filter_map(|path| Some(path.strip_prefix(out).ok()?.to_owned())));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boots_are_interleaved() {
        let order: Vec<_> = order(3).collect();
        assert_eq!(order, [(1, 0), (1, 1), (2, 1), (2, 0), (3, 0), (3, 1)]);
    }

    #[test]
    fn only_finished_boots_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        for boot in ["before-1", "before-2", "before-3.part", "after-1", "charts"] {
            let recording = folder.path().join(boot).join("slots-3");
            fs::create_dir_all(&recording).unwrap();
            fs::write(recording.join("meta.json"), "{}").unwrap();
        }
        let found = |side: &str| recordings(folder.path(), side).unwrap();
        assert_eq!(found("before"), [Path::new("before-1/slots-3"), Path::new("before-2/slots-3")]);
        assert_eq!(found("after"), [Path::new("after-1/slots-3")]);
    }
}
