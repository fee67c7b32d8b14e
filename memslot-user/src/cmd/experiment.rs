//! `memslot experiment`, hidden: what `cargo xtask experiment` runs, in the guest and on the host.

use super::{digests, output};
use anyhow::Context;
use clap::Subcommand;
use memslot::chart::{self, Format};
use memslot::experiment::calibration::{self, What};
use memslot::experiment::{self, Module, outcome};
use memslot::workload::{self, name_process};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Measure what a livepatch module's searches take on known inputs, and print it as JSON (in the guest, as root)
    Calibrate {
        /// Which module
        module: Module,
        /// The kernel's own function, while the patch is off
        #[arg(long)]
        off: bool,
    },
    /// Change slots or tables of regions while they are looked up, and print how often, as JSON (in the guest, as root)
    Stress {
        /// Whose
        module: Module,
        /// For how long, e.g. 30s, 5m
        #[arg(long, default_value = "10s", value_parser = humantime::parse_duration)]
        time: Duration,
    },
    /// Hold what was predicted from the stock kernel's recordings against what the engines took
    Evaluate {
        /// Folders of the boots
        #[arg(required = true)]
        boots: Vec<PathBuf>,
        /// Where experiment.json goes
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        out: PathBuf,
    },
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.step {
            Step::Calibrate { module, off } => {
                let what = if off { What::Off } else { What::Engines };
                let calibration = calibration::measure(module, what)?;
                output::print(&(serde_json::to_string(&calibration)? + "\n"))?;
                Ok(ExitCode::SUCCESS)
            }
            Step::Stress { module, time } => {
                name_process("stress");
                let stressed = match module {
                    Module::Kvm => workload::slots::stress(time)?,
                    Module::Vhost => workload::vhost::stress(time)?,
                };
                output::print(&(serde_json::to_string(&stressed)? + "\n"))?;
                Ok(ExitCode::SUCCESS)
            }
            Step::Evaluate { boots, out } => {
                let bar = digests::bar();
                let report = |boot: &str| bar.set_message(format!("evaluating {boot}"));
                let experiment = outcome::evaluate(&boots, env!("MEMSLOT_VERSION"), &report)?;
                bar.finish_and_clear();
                let json = serde_json::to_string_pretty(&experiment)
                    .context("the figures cannot be written as JSON")?
                    + "\n";
                digests::write_file(&out.join("experiment.json"), &json)?;
                for (name, picture) in chart::experiment::draw_all(&experiment) {
                    picture.save(&out.join(name + ".png"), Format::Png)?;
                }
                output::print(&experiment::text(&experiment))?;
                let sound = |outcome: &outcome::Outcome| {
                    outcome.holds() != Some(false) && outcome.verify_mismatches == 0 && outcome.lost == 0
                };
                Ok(ExitCode::from(u8::from(!experiment.results.iter().all(sound))))
            }
        }
    }
}
