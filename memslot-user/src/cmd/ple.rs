//! `memslot ple`

use super::{digests, output};
use anyhow::{Context, anyhow};
use memslot::ple::policy::Policy;
use memslot::ple::sim::{Config, MILLISECOND};
use memslot::ple::window::{Parameters, Unit};
use memslot::ple::{self, analyse, recorded_text, simulated_text};
use memslot::recording::Recording;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memslot ple rec
  memslot ple rec --policy dynamic --policy 16k --json
  memslot ple --simulate --loads 1,2,3 --milliseconds 50

Exit codes: 0 done; 1 a recording has no PLE exit, or its windows do not follow the rules; 2 error.")]
pub(crate) struct Args {
    /// Recordings with PLE exits
    #[arg(required_unless_present = "simulate", conflicts_with = "simulate")]
    recordings: Vec<PathBuf>,
    /// A policy: a window (4096, 16k), off, or dynamic[:base=…,grow=…,shrink=…,max=…]; can be given again,
    /// the first is the base [default: 4k, 16k, 32k, off, dynamic]
    #[arg(long, short = 'P', value_name = "POLICY")]
    policy: Vec<String>,
    /// How long a unit of the window lasts (a TSC cycle, or a PAUSE on AMD), ns [default: estimated]
    #[arg(long, value_name = "NS", conflicts_with = "simulate", value_parser = positive)]
    ns_per_unit: Option<f64>,
    /// Simulate a host instead, whose truth is known
    #[arg(long)]
    simulate: bool,
    #[command(flatten)]
    simulation: Simulation,
    /// Print the figures as JSON
    #[arg(short, long)]
    json: bool,
}

/// What is simulated.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Simulation")]
struct Simulation {
    /// VMs, each with a vCPU a CPU
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 2, 3], value_parser = clap::value_parser!(u32).range(1..))]
    loads: Vec<u32>,
    /// CPUs of the host
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    cpus: u32,
    /// Windows count PAUSEs, as on AMD, instead of cycles
    #[arg(long)]
    pauses: bool,
    /// Runs a policy, each with another seed
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Time simulated, ms
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    milliseconds: u64,
    /// First seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("give a number above 0".to_owned()),
    }
}

#[derive(serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "ple")]
pub(crate) struct Document<T> {
    /// Version of this document, 1.
    schema: u32,
    #[serde(flatten)]
    content: T,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Recorded {
    /// What each recording holds, against the rules and under other policies.
    ple: Vec<ple::Recorded>,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Simulated {
    /// What the simulated hosts did under each policy.
    simulated: ple::Table,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.simulate {
            let bar = digests::bar();
            bar.set_message("simulating");
            let table = self.simulation.table(&self.policy)?;
            bar.finish_and_clear();
            if self.json {
                output::print_json(&Document { schema: 1, content: Simulated { simulated: table } })?;
            } else {
                output::print_tables(&simulated_text(&table))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut all = Vec::with_capacity(self.recordings.len());
        let bar = digests::bar();
        for path in &self.recordings {
            bar.set_message(format!("reading {}", path.display()));
            let recorded = analyse(&Recording::open(path)?, &self.policy, self.ns_per_unit)
                .with_context(|| path.display().to_string())?;
            all.push(recorded);
        }
        bar.finish_and_clear();
        let whole = all.iter().all(|recorded| recorded.trail.exits > 0 && recorded.trail.exact());
        if self.json {
            output::print_json(&Document { schema: 1, content: Recorded { ple: all } })?;
        } else {
            output::print_tables(&all.iter().map(recorded_text).collect::<Vec<_>>().join("\n"))?;
        }
        Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

impl Simulation {
    fn table(&self, policies: &[String]) -> anyhow::Result<ple::Table> {
        let unit = if self.pauses { Unit::Pauses } else { Unit::Cycles };
        let defaults = Parameters::defaults(unit);
        let policies = if policies.is_empty() {
            Policy::usual(defaults)
        } else {
            policies
                .iter()
                .map(|text| Policy::parse(text, defaults, unit))
                .collect::<Result<_, _>>()
                .map_err(|error| anyhow!(error))?
        };
        let config = Config {
            cpus: self.cpus,
            duration: self.milliseconds * MILLISECOND,
            seed: self.seed,
            ..Config::new(1, unit)
        };
        ple::simulate(&config, &self.loads, &policies, self.runs).map_err(|error| anyhow!(error))
    }
}
