//! `cargo xtask lab`.

use super::{Accelerator, ForeignModule, KernelChoice, Request, selftest};
use crate::{build, setup};
use anyhow::Result;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Boot a kernel in QEMU and run a command in it as root
///
/// Exits with the command's exit code, or with 2 when the guest's kernel failed, time ran out or the guest ended
/// before the command did. Files that the command leaves in $LAB_OUT come back to --out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// 6.1, 6.12, one of these with modules replaced (6.12+DIR), or a bzImage of your own (then with --modules)
    #[arg(long, default_value = "6.12")]
    kernel: String,
    /// The modules of a kernel of your own: lib/modules/RELEASE, or the directory that holds lib/modules
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    /// A module (.ko) to load after the others, with its parameters after commas; may be repeated
    #[arg(long = "module", value_name = "FILE[,NAME=VALUE…]", value_parser = foreign_module)]
    foreign_modules: Vec<ForeignModule>,
    /// Count instructions for time, so that every run of the same is the same (one CPU)
    #[arg(long)]
    exact: bool,
    /// Virtual CPUs [default: 2, with --exact 1]
    #[arg(long, value_name = "N")]
    smp: Option<u32>,
    /// Memory in MiB
    #[arg(long, value_name = "MiB", default_value_t = 2048)]
    memory: u32,
    /// Virtualization by the host, or emulation
    #[arg(long, value_enum, default_value_t = Accelerator::Auto)]
    accel: Accelerator,
    /// Seconds until the guest is given up
    #[arg(long, value_name = "S", default_value_t = 600)]
    timeout: u64,
    /// Where the files that the command leaves in $LAB_OUT go
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A file or directory for the command's working directory, which is also in its $PATH; may be repeated
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// Another argument for the guest's kernel; may be repeated
    #[arg(long = "append", value_name = "ARGUMENT")]
    kernel_arguments: Vec<String>,
    /// Check the lab itself instead of running a command: exit codes, files, panics, time-outs, exactness
    #[arg(long, conflicts_with = "command")]
    self_test: bool,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "self_test", value_name = "COMMAND")]
    command: Vec<String>,
}

fn foreign_module(text: &str) -> Result<ForeignModule, String> {
    let (file, parameters) = text.split_once(',').unwrap_or((text, ""));
    if !Path::new(file).is_file() {
        return Err(format!("there is no file {file}"));
    }
    Ok(ForeignModule { file: file.into(), parameters: parameters.replace(',', " ") })
}

impl Args {
    /// Runs the command in a guest.
    ///
    /// # Errors
    /// As [`super::run`].
    pub(crate) fn run(self) -> Result<ExitCode> {
        let kernel = KernelChoice::from_arguments(&self.kernel, self.modules.as_deref())?;
        if self.self_test {
            setup::ensure()?;
            selftest::run(&kernel)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut request = Request::new(kernel, self.command);
        if self.exact {
            request = request.exact();
        }
        request.smp = self.smp.unwrap_or(request.smp);
        request.memory = self.memory;
        request.accelerator = self.accel;
        request.time_limit = Duration::from_secs(self.timeout);
        request.out = self.out;
        request.files = self.files;
        request.kernel_arguments = self.kernel_arguments;
        request.foreign_modules = self.foreign_modules;
        setup::ensure()?;
        request.memslot = Some(build::static_binary(&build::probes()?)?);

        let outcome = super::run(&request, &mut io::stdout())?;
        for note in &outcome.notes {
            eprintln!("xtask: {note}");
        }
        Ok(ExitCode::from(outcome.exit_code))
    }
}
