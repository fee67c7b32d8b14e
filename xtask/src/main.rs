//! Sets up, builds, tests and runs memslot.

mod bench;
mod btf_extract;
mod build;
mod command;
mod compare;
mod dist;
mod experiment;
mod interrupt;
mod kbuild;
mod lab;
mod paths;
mod peers;
mod progress;
mod run;
mod scratch;
mod setup;
mod test;

use clap::{Parser, Subcommand};
use kbuild::{livepatch, module};
use std::process::ExitCode;

/// Sets up, builds, tests and runs memslot
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Setup(setup::Args),
    Build(build::Args),
    Lab(lab::cli::Args),
    Module(module::Args),
    Livepatch(livepatch::Args),
    Run(run::Args),
    Compare(compare::Args),
    Experiment(experiment::Args),
    Dist(dist::Args),
    Test(test::Args),
    Bench(bench::Args),
    BtfExtract(btf_extract::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Setup(args) => args.run(),
        Command::Build(args) => args.run(),
        Command::Lab(args) => args.run(),
        Command::Module(args) => args.run(),
        Command::Livepatch(args) => args.run(),
        Command::Run(args) => args.run(),
        Command::Compare(args) => args.run(),
        Command::Experiment(args) => args.run(),
        Command::Dist(args) => args.run(),
        Command::Test(args) => args.run(),
        Command::Bench(args) => args.run(),
        Command::BtfExtract(args) => args.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(if error.is::<interrupt::Interrupted>() {
                130
            } else if error.is::<setup::NoPrivilege>() {
                1
            } else {
                2
            })
        }
    }
}
