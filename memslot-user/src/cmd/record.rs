//! `memslot record`

use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        anyhow::bail!("not yet")
    }
}
