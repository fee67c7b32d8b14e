//! Sets up, builds, tests and runs memslot.

mod command;
mod interrupt;
mod lab;
mod paths;

use clap::{Parser, Subcommand};
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
    Lab(lab::cli::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Lab(args) => args.run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            let interrupted = error.downcast_ref::<interrupt::Interrupted>().is_some();
            ExitCode::from(if interrupted { 130 } else { 2 })
        }
    }
}
