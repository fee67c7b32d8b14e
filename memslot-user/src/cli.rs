//! The command line.

use crate::cmd::{
    bench_engines, bench_reader, chart, compare, doctor, engines, experiment, export, generate, paint, ple,
    record, replay, report, serve, summary, top, workload,
};
use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// Measures what memory-slot look-ups, PLE exits and vhost translations cost on a live KVM host
#[derive(Debug, Parser)]
#[command(
    name = "memslot",
    version = env!("MEMSLOT_VERSION"),
    propagate_version = true,
    infer_subcommands = true,
    styles = paint::HELP,
    after_help = AFTER_HELP
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
    /// When to colour; `auto` obeys NO_COLOR, and leaves pipes and files alone
    #[arg(long, global = true, visible_alias = "colour", value_enum, value_name = "WHEN", default_value_t)]
    color: ColorChoice,
}

const AFTER_HELP: &str = "\
Examples:
  sudo memslot doctor
  sudo memslot record --output rec --duration 30s
  memslot summary rec
  memslot replay rec --json
  memslot chart rec --out charts

A command may be shortened as long as it is clear: `memslot sum rec`.
Exit codes: 0 done; 1 done, but something is missing or lost (the output says what); 2 error.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Say which probes work on this host, how they would attach, and what to do about the others
    #[command(visible_alias = "check")]
    Doctor(doctor::Args),
    /// Record faults, PLE exits and translations of this host into a directory
    Record(record::Args),
    /// Show what happens now by VM, vCPU or queue: rates, latencies, search lengths, losses
    Top(top::Args),
    /// Run a recording's addresses through other data structures
    Replay(replay::Args),
    /// Hold PLE windows against the rules of KVM, and try other policies
    Ple(ple::Args),
    /// Draw the charts of a recording as PNG or SVG
    #[command(visible_alias = "plot")]
    Chart(chart::Args),
    /// Compare kernels before and after a patch: what changed, by how much, and how sure that is
    #[command(visible_alias = "diff")]
    Compare(compare::Args),
    /// Write one HTML file about recordings or a comparison: verdict, charts, tables, provenance
    Report(report::Args),
    /// Print a recording's figures as tables or JSON
    #[command(visible_alias = "show")]
    Summary(summary::Args),
    /// Write recordings as Parquet, CSV, NDJSON or HdrHistogram logs, for tools that read many of them
    Export(export::Args),
    /// Show a host's figures to Prometheus, as OpenMetrics and native histograms
    #[command(visible_alias = "exporter")]
    Serve(serve::Args),
    /// List the data structures, or show a tree over a layout
    Engines(engines::Args),
    /// Measure the engines (run by `cargo xtask bench engines`)
    #[command(hide = true)]
    BenchEngines(bench_engines::Args),
    /// Measure decoding and recording (run by `cargo xtask bench probes`)
    #[command(hide = true)]
    BenchReader(bench_reader::Args),
    /// Calibrate and evaluate experiments with livepatches (run by `cargo xtask experiment`)
    #[command(hide = true)]
    Experiment(experiment::Args),
    /// Cause an exactly known number of faults, PLE exits or translations
    Workload(workload::Args),
    /// Write man pages, completions for shells, or the schemas of what `--json` prints
    Generate(generate::Args),
}

impl Cli {
    /// The command line's own definition, for all that is made from it.
    pub(crate) fn definition() -> clap::Command {
        Self::command()
    }

    /// Parses the command line, and ends the process where there is nothing to run.
    pub(crate) fn parse(color: ColorChoice) -> Self {
        let matches = Self::definition().color(color).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Runs the command; the exit code says whether its result is whole.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Doctor(args) => args.run(),
            Command::Record(args) => args.run(),
            Command::Top(args) => args.run(),
            Command::Replay(args) => args.run(),
            Command::Ple(args) => args.run(),
            Command::Chart(args) => args.run(),
            Command::Compare(args) => args.run(),
            Command::Report(args) => args.run(),
            Command::Summary(args) => args.run(),
            Command::Export(args) => args.run(),
            Command::Serve(args) => args.run(),
            Command::Engines(args) => args.run(),
            Command::BenchEngines(args) => args.run(),
            Command::BenchReader(args) => args.run(),
            Command::Experiment(args) => args.run(),
            Command::Workload(args) => args.run(),
            Command::Generate(args) => args.run(),
        }
    }
}
