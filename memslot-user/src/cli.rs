//! The command line.

use crate::cmd::{
    bench_engines, bench_reader, chart, compare, doctor, engines, ple, record, replay, report, summary, top,
    workload,
};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measures what memory-slot look-ups, PLE exits and vhost translations cost on a live KVM host
#[derive(Debug, Parser)]
#[command(version = env!("MEMSLOT_VERSION"), propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 done, but something is missing or lost (the output says what); 2 error.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Say which probes work on this host, how they would attach, and what to do about the others
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
    Chart(chart::Args),
    /// Compare kernels before and after a patch: what changed, by how much, and how sure that is
    Compare(compare::Args),
    /// Write one HTML file about recordings or a comparison: verdict, charts, tables, provenance
    Report(report::Args),
    /// Print a recording's figures as tables or JSON
    Summary(summary::Args),
    /// List the data structures, or show a tree over a layout
    Engines(engines::Args),
    /// Measure the engines (run by `cargo xtask bench engines`)
    #[command(hide = true)]
    BenchEngines(bench_engines::Args),
    /// Measure decoding and recording (run by `cargo xtask bench probes`)
    #[command(hide = true)]
    BenchReader(bench_reader::Args),
    /// Cause an exactly known number of faults, PLE exits or translations
    Workload(workload::Args),
}

impl Cli {
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
            Command::Engines(args) => args.run(),
            Command::BenchEngines(args) => args.run(),
            Command::BenchReader(args) => args.run(),
            Command::Workload(args) => args.run(),
        }
    }
}
