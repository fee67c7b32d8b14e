//! The command `memslot`: parse, run, error to exit code.

mod cli;
mod cmd;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("memslot: {error:#}");
            ExitCode::from(2)
        }
    }
}
