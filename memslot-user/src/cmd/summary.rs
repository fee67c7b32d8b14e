//! `memslot summary`

use super::digests::{self, Source};
use super::output;
use anyhow::Context;
use memslot::report::summary::Summary;
use memslot::report::tables;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What the JSON says of where the recordings come from, e.g. live or lab
    #[arg(long, value_name = "WORD", default_value = "recording", requires = "json")]
    mode: String,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let digests = self.source.load()?;
        let text = if self.json {
            Summary::new(&self.mode, &digests, Vec::new())
                .to_json()
                .context("the summary cannot be written as JSON")?
        } else {
            tables::all(&digests)
        };
        match &self.out {
            Some(path) => digests::write_file(path, &text)?,
            None => output::print(&text)?,
        }
        Ok(if digests::sound(&digests) { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}
