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
#[command(after_help = "\
Examples:
  memslot summary rec
  memslot summary rec --by vcpu
  memslot summary slots-3 slots-53 slots-509 --no-replay
  memslot summary rec --json | jq .probes.page_fault.latency_ns

Exit codes: 0 done; 1 done, but something is missing or lost, and the notes say what; 2 error.")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Print the figures as JSON
    #[arg(short, long)]
    json: bool,
    /// Print latencies by this instead; where events are incomplete, vm and class come from the histograms
    #[arg(short, long, value_name = "WHAT")]
    by: Option<By>,
    /// Write to this file instead of standard output
    #[arg(short, long, visible_alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    /// What the JSON says of where the recordings come from, e.g. live or lab
    #[arg(long, value_name = "WORD", default_value = "recording", requires = "json")]
    mode: String,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(by) = self.by {
            let recordings = self.source.open()?;
            let told = by::tell(&recordings, by).context("the recordings cannot be read")?;
            self.deliver(&if self.json {
                serde_json::to_string_pretty(&told).context("the table cannot be written as JSON")? + "\n"
            } else {
                by::text(&told)
            })?;
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
        self.deliver(&text)?;
        Ok(if digests::sound(&digests) { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    fn deliver(&self, text: &str) -> anyhow::Result<()> {
        match &self.out {
            Some(path) => digests::write_file(path, text),
            None if self.json => output::print(text),
            None => output::print_tables(text),
        }
    }
}
