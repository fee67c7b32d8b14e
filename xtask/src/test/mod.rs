//! `cargo xtask test`: every test that there is.

mod browser;
mod compare;
mod dist;
mod documents;
mod end_to_end;
mod fleet;
mod lab_tests;
mod peers;

use crate::{build, command::Tool, paths, progress, setup};
use anyhow::Result;
use std::process::ExitCode;

/// Run every test: format, lints, unit, property and CLI tests, and the lab on both kernels
///
/// Needs what `cargo xtask setup` gets, which it calls itself. The lab's tests boot Debian's 6.1 and 6.12 kernels in
/// QEMU, emulated, so that they count the same on every machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave out what boots a kernel
    #[arg(long)]
    no_lab: bool,
    /// Only this stage; may be repeated
    #[arg(long, value_name = "STAGE", value_parser = ["format", "lints", "unit", "browser", "lab", "probes", "trouble", "modules", "peers", "fleet", "dist", "documents", "compare", "run"])]
    stage: Vec<String>,
}

/// Tests of one kind, and what they are called in the report.
struct Stage<'a> {
    /// In one word, for the command line.
    key: &'static str,
    name: &'static str,
    run: Box<dyn Fn() -> Result<()> + 'a>,
}

impl<'a> Stage<'a> {
    fn new(key: &'static str, name: &'static str, run: impl Fn() -> Result<()> + 'a) -> Self {
        Self { key, name, run: Box::new(run) }
    }
}

impl Args {
    /// Runs all stages; a failed one does not keep the others from running.
    ///
    /// # Errors
    /// When the set-up or the build fails.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let memslot = if self.no_lab {
            None
        } else {
            setup::ensure()?;
            Some(build::static_binary(&build::probes()?)?)
        };
        let mut stages = vec![
            Stage::new("format", "format", format),
            Stage::new("lints", "lints", lints),
            Stage::new("unit", "unit, property and command-line tests", unit_tests),
            Stage::new("browser", "reports in a browser", || browser::run(memslot.as_deref())),
        ];
        if let Some(memslot) = memslot.as_deref() {
            stages.push(Stage::new("lab", "the lab itself, on both kernels", lab_tests::lab_itself));
            stages.push(Stage::new("probes", "probes against workloads, on both kernels", || {
                lab_tests::probes(memslot)
            }));
            stages.push(Stage::new("trouble", "what goes wrong for users, on both kernels", || {
                lab_tests::trouble(memslot)
            }));
            stages.push(Stage::new("modules", "our kernel modules, on both kernels", || {
                lab_tests::modules(memslot)
            }));
            stages.push(Stage::new(
                "peers",
                "counts against bpftrace, perf and kprobe_profile, on both kernels",
                || peers::run(memslot),
            ));
            stages.push(Stage::new("fleet", "exports and served figures, read by others", || {
                fleet::run(memslot)
            }));
            stages.push(Stage::new("dist", "packages, installed and run", || dist::run(memslot)));
            stages.push(Stage::new("documents", "commands of the documents that need a kernel", || {
                documents::run(memslot)
            }));
            stages.push(Stage::new("compare", "kernels compared, one patched", compare::run));
            stages.push(Stage::new("run", "run, end to end", end_to_end::run));
        }
        stages.retain(|stage| self.stage.is_empty() || self.stage.iter().any(|key| key == stage.key));
        Ok(report(&stages))
    }
}

fn report(stages: &[Stage<'_>]) -> ExitCode {
    let mut failed = Vec::new();
    for stage in stages {
        if let Err(error) = progress::step(stage.name, &stage.run) {
            eprintln!("xtask: FAILED: {}: {error:#}", stage.name);
            failed.push(stage.name);
        }
    }
    for name in &failed {
        println!("failed: {name}");
    }
    println!("{} passed, {} failed", stages.len() - failed.len(), failed.len());
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The Cargo that runs us, free of what it told us to tell it.
fn cargo() -> Tool {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    build::clean(Tool::new(program), std::env::vars_os().map(|(name, _)| name)).directory(paths::workspace())
}

fn format() -> Result<()> {
    let remedy = "Run `cargo fmt` there.";
    cargo().args(["fmt", "--all", "--check"]).remedy(remedy).run()?;
    let probes = paths::workspace().join("memslot-ebpf");
    cargo().directory(probes).args(["fmt", "--check"]).remedy(remedy).run()
}

fn lints() -> Result<()> {
    cargo()
        .args(["clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"])
        .run()
}

fn unit_tests() -> Result<()> {
    cargo().args(["test", "--workspace", "--locked", "--quiet"]).run()
}
