//! `cargo xtask compare`: boots two kernels in turn, records the same workloads on both, and compares.

use crate::command::Tool;
use crate::lab::{self, Failure, KernelChoice, Request};
use crate::run::scenario::{self, SCENARIOS, Scenario};
use crate::{build, interrupt, paths, setup};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Boot two kernels in the lab in turn, record the same workloads on both, and compare
///
/// KERNEL is a series (6.1, 6.12), SERIES+DIR (the stock kernel with the modules of DIR in place of its own), or
/// BZIMAGE+MODULES. The boots go before, after, after, before. Interrupted, the same command goes on where it was. A
/// kernel that fails is reported with its console, and the other side's boots go on.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The kernel before the change
    #[arg(long, value_name = "KERNEL")]
    before: String,
    /// The kernel after it
    #[arg(long, value_name = "KERNEL")]
    after: String,
    /// Only this workload, e.g. slots-53, regions-509, ple-overcommit; can be given several times
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Boots of each kernel [default: 7, and 2 with --exact]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,
    /// Count instructions for time: nothing varies, and one run tells as much as ten. Leaves PLE out, which takes two CPUs
    #[arg(long)]
    exact: bool,
    /// Where recordings, console logs, compare.json and charts go [default: target/compare]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Options of `memslot compare`, e.g. --fail-on slower:5%
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// What a folder of results holds, so that only the same comparison is resumed.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Plan {
    before: String,
    after: String,
    workloads: Vec<String>,
    exact: bool,
    /// Size and time of the binary that records.
    memslot: String,
}

/// A side of the comparison.
struct Side {
    name: &'static str,
    kernel: KernelChoice,
    /// It is booted no more.
    failed: bool,
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
        let out = self.out.clone().unwrap_or_else(|| paths::target().join("compare"));
        fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
        let out = std::path::absolute(out)?;
        let plan = Plan {
            before: self.before.clone(),
            after: self.after.clone(),
            workloads: scenarios.iter().map(|scenario| scenario.label.to_owned()).collect(),
            exact: self.exact,
            memslot: identity(&memslot)?,
        };
        resume(&out, &plan)?;
        let side = |name: &'static str, text: &str| -> Result<Side> {
            let kernel = KernelChoice::from_arguments(text, None)?;
            kernel.locate()?;
            Ok(Side { name, kernel, failed: false })
        };
        let mut sides = [side("before", &self.before)?, side("after", &self.after)?];
        let runs = self.runs.unwrap_or(if self.exact { 2 } else { 7 });
        for (number, place) in order(runs) {
            let folder = out.join(format!("{}-{number}", sides[place].name));
            if sides[place].failed || folder.is_dir() {
                continue;
            }
            eprintln!("xtask: {} run {number} of {runs}: Linux {}", sides[place].name, sides[place].kernel);
            sides[place].failed = !self.boot(&sides[place], &scenarios, &memslot, &folder)?;
        }
        compare(&memslot, &out, &self.options, sides.iter().any(|side| side.failed))
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

    /// One boot. Its recordings take their place only when all of them are there; otherwise the side has failed.
    fn boot(&self, side: &Side, scenarios: &[&Scenario], memslot: &Path, folder: &Path) -> Result<bool> {
        let part = folder.with_extension("part");
        if part.exists() {
            fs::remove_dir_all(&part).with_context(|| format!("cannot remove {}", part.display()))?;
        }
        let script = scenario::script(scenarios.iter().copied(), false);
        let mut request = Request::new(side.kernel.clone(), vec!["sh".into(), "-c".into(), script]);
        if self.exact {
            request = request.exact();
        }
        request.memslot = Some(memslot.to_owned());
        request.out = Some(part.clone());
        let console = folder.with_extension("console");
        let failed = match lab::run(&request, &mut io::stderr()) {
            // 1: something was lost; the comparison says what.
            Ok(outcome) if outcome.exit_code < 2 => {
                fs::rename(&part, folder).with_context(|| format!("cannot rename {}", part.display()))?;
                return Ok(true);
            }
            Ok(outcome) => outcome.output,
            Err(error) if error.is::<interrupt::Interrupted>() => return Err(error),
            Err(error) => match error.downcast_ref::<Failure>() {
                Some(failure) => format!("{}\n{}", failure.summary(), failure.console_end),
                None => return Err(error),
            },
        };
        fs::write(&console, &failed).with_context(|| format!("cannot write {}", console.display()))?;
        eprintln!(
            "xtask: the kernel {} failed, and is booted no more; its last words, which are kept in {}:\n{}",
            side.name,
            console.display(),
            crate::command::last_lines(&failed, 20)
        );
        Ok(false)
    }
}

/// Number of the run and the side: before, after, after, before, so that a drift weighs on both alike.
fn order(runs: u32) -> impl Iterator<Item = (u32, usize)> {
    (1..=runs).flat_map(|run| if run % 2 == 1 { [(run, 0), (run, 1)] } else { [(run, 1), (run, 0)] })
}

/// Boots of another binary are no runs of this comparison.
fn identity(binary: &Path) -> Result<String> {
    let found = fs::metadata(binary).and_then(|found| Ok((found.len(), found.modified()?)));
    let (bytes, time) = found.with_context(|| format!("cannot look at {}", binary.display()))?;
    let time = time.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Ok(format!("{bytes} bytes of {}", time.as_secs()))
}

fn resume(out: &Path, plan: &Plan) -> Result<()> {
    let path = out.join("plan.json");
    if let Ok(text) = fs::read_to_string(&path) {
        ensure!(
            serde_json::from_str::<Plan>(&text).is_ok_and(|known| known == *plan),
            "{} holds another comparison, or one by another build of memslot; remove it, or name another folder with \
             --out",
            out.display()
        );
        return Ok(());
    }
    let empty = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
    ensure!(empty, "{} holds something else; name another folder with --out", out.display());
    let text = serde_json::to_string_pretty(plan).context("the plan cannot be written as JSON")?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Compares all runs that are there; exit code 1 where a kernel failed, whatever the others say.
fn compare(memslot: &Path, out: &Path, options: &[String], failed: bool) -> Result<ExitCode> {
    let mut command = Tool::new(memslot).arg("compare");
    for side in ["before", "after"] {
        let recordings = recordings(out, side)?;
        ensure!(!recordings.is_empty(), "nothing was recorded of the kernel {side}; the reason is above");
        command = command.arg(format!("--{side}")).args(recordings);
    }
    let code = command.arg("--out").arg(out.join("charts")).args(options).exit_code()?;
    let code = u8::try_from(code).unwrap_or(2);
    Ok(ExitCode::from(code.max(u8::from(failed))))
}

/// The recordings of a side's finished boots, in order.
fn recordings(out: &Path, side: &str) -> Result<Vec<PathBuf>> {
    let context = || format!("cannot read {}", out.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(out).with_context(context)? {
        let boot = entry.with_context(context)?.path();
        let name = boot.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.strip_prefix(side).and_then(|rest| rest.strip_prefix('-'));
        if !boot.is_dir() || number.is_none_or(|number| number.parse::<u32>().is_err()) {
            continue;
        }
        for entry in fs::read_dir(&boot).with_context(context)? {
            let path = entry.with_context(context)?.path();
            if path.join("meta.json").is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
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

    fn plan(after: &str) -> Plan {
        let text = |text: &str| text.to_owned();
        Plan {
            before: text("6.1"),
            after: text(after),
            workloads: Vec::new(),
            exact: true,
            memslot: text("x"),
        }
    }

    #[test]
    fn only_the_same_comparison_is_resumed() {
        let folder = tempfile::tempdir().unwrap();
        resume(folder.path(), &plan("6.12")).unwrap();
        resume(folder.path(), &plan("6.12")).unwrap();
        assert!(
            resume(folder.path(), &plan("6.12+x")).unwrap_err().to_string().contains("another comparison")
        );
        let foreign = tempfile::tempdir().unwrap();
        fs::write(foreign.path().join("letter"), "").unwrap();
        assert!(resume(foreign.path(), &plan("6.12")).unwrap_err().to_string().contains("something else"));
    }

    #[test]
    fn only_finished_boots_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        for boot in ["before-1", "before-2", "before-3.part", "after-1", "charts"] {
            let recording = folder.path().join(boot).join("slots-3");
            fs::create_dir_all(&recording).unwrap();
            fs::write(recording.join("meta.json"), "{}").unwrap();
        }
        let names = |side: &str| recordings(folder.path(), side).unwrap().len();
        assert_eq!((names("before"), names("after")), (2, 1));
    }
}
