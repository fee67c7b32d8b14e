//! `memslot summary`

use super::digests::{self, Source};
use super::output;
use anyhow::Context;
use memslot::report::by::{self, By};
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
    /// Print latencies by this instead; where events are incomplete, vm and class come from the histograms
    #[arg(long, value_name = "WHAT", conflicts_with = "json")]
    by: Option<By>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// What the JSON says of where the recordings come from, e.g. live or lab
    #[arg(long, value_name = "WORD", default_value = "recording", requires = "json")]
    mode: String,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(by) = self.by {
            let recordings = self.source.open()?;
            let text = by::text(&recordings, by).context("the recordings cannot be read")?;
            match &self.out {
                Some(path) => digests::write_file(path, &text)?,
                None => output::print(&text)?,
            }
            let whole = recordings.iter().all(|(_, recording)| digests::is_whole(recording.meta()));
            return Ok(ExitCode::from(u8::from(!whole)));
        }
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
