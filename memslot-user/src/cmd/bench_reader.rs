//! `memslot bench-reader`, hidden: what `cargo xtask bench probes` runs for the user side.

use anyhow::Context;
use memslot::bench::{Records, measure_reader};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder, not there yet, for the recordings that are made; it is kept
    folder: PathBuf,
    /// Rounds of 262,144 records of each kind, and one more that is not timed
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: u32,
}

impl Args {
    /// Prints the figures as one line of JSON.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        std::fs::create_dir(&self.folder)
            .map_err(|error| anyhow::anyhow!("{} cannot be made: {}", self.folder.display(), error.kind()))?;
        let mut figures = Vec::new();
        for (name, records) in [("faults", Records::PageFault), ("translations", Records::Translate)] {
            let dir = self.folder.join(name);
            let figure =
                measure_reader(&dir, records, self.rounds).context("the reader cannot be measured")?;
            figures.push(figure);
        }
        println!("{}", serde_json::to_string(&figures)?);
        Ok(ExitCode::SUCCESS)
    }
}
