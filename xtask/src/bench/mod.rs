//! `cargo xtask bench`: how fast the tool's own parts are.

mod engines;
mod probes;

use anyhow::Result;
use std::process::ExitCode;

/// Measure the tool itself
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// ns a look-up in each engine as ratios measured in one run, and a replay of 10 million events
    ///
    /// Uses the addresses of the recordings that `cargo xtask run` left, else a synthetic trace. Exits with 1 if a
    /// target is missed.
    Engines(engines::Args),
    /// Instructions that the probes, bpftrace and perf add to a call, and how fast events are recorded
    ///
    /// Boots each kernel once in the lab's exact mode. Fetches Debian's perf and bpftrace for the guests, and installs
    /// nothing. Exits with 1 if a target is missed.
    Probes(probes::Args),
}

impl Args {
    /// Builds and measures.
    ///
    /// # Errors
    /// When the build or the measurement fails.
    pub(crate) fn run(self) -> Result<ExitCode> {
        match self.what {
            What::Engines(args) => args.run(),
            What::Probes(args) => args.run(),
        }
    }
}
