//! `memslot export`

use super::{digests, output};
use anyhow::{Context, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use memslot::export::{self, Format, Outcome, Table};
use memslot::recording::Recording;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memslot export rec --out fleet
  memslot export host-* --format parquet --table histograms,recordings --out fleet
  memslot export rec --format csv --table faults --out - | head
  memslot export rec --format hdr

Files lie at TABLE/host=H/kernel=K/date=D/RECORDING.EXTENSION below the directory, so that exports of many hosts can be
put together and read as one table.

Exit codes: 0 done; 1 done, but a recording was cut off or lost calls; 2 error.")]
pub(crate) struct Args {
    /// The recordings' directories
    #[arg(required = true, value_name = "RECORDING")]
    recordings: Vec<PathBuf>,
    /// What to write
    #[arg(short, long, value_enum, default_value = "parquet")]
    format: Format,
    /// Directory to write below; made if it is not there. With `-`, one table goes to standard output
    #[arg(short, long, visible_alias = "output", value_name = "DIR", default_value = "export")]
    out: PathBuf,
    /// Only these tables, separated by commas
    #[arg(short, long, value_name = "TABLES", value_delimiter = ',', value_parser = tables())]
    table: Vec<Table>,
    /// List what was written as JSON
    #[arg(short, long)]
    json: bool,
}

fn tables() -> impl TypedValueParser<Value = Table> {
    PossibleValuesParser::new(Table::all().iter().map(|table| table.name()))
        .try_map(|name| name.parse::<Table>())
}

/// What was exported.
#[derive(serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "export")]
pub(crate) struct Document {
    /// Version of this document, 1.
    schema: u32,
    /// The files.
    files: Vec<File>,
    /// Every recording ended in order, and its figures rest on every call.
    whole: bool,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct File {
    /// Where it lies.
    path: String,
    /// The table.
    table: &'static str,
    /// What the recording is called in the tables.
    recording: String,
    /// Rows, or histograms of a log.
    rows: u64,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let recordings: Vec<Recording> =
            self.recordings.iter().map(|dir| Recording::open(dir)).collect::<Result<_, _>>()?;
        let whole = recordings.iter().all(|recording| digests::is_whole(recording.meta()));
        let outcome = if self.out == Path::new("-") {
            self.to_standard_output(&recordings)?
        } else {
            self.to_directory(&recordings)?
        };
        for truncated in &outcome.truncated {
            output::note(truncated);
        }
        if !whole {
            output::note("something is missing or lost; the table `probes` and `memslot summary` say what");
        }
        let whole = whole && outcome.truncated.is_empty();
        if self.out != Path::new("-") {
            report(outcome, whole, self.json)?;
        }
        Ok(ExitCode::from(u8::from(!whole)))
    }

    fn to_directory(&self, recordings: &[Recording]) -> anyhow::Result<Outcome> {
        ensure!(
            self.format != Format::Hdr || self.table.is_empty(),
            "a histogram log is made of the whole recording; leave --table out"
        );
        let tables = if self.table.is_empty() { Table::all() } else { self.table.clone() };
        let bar = digests::bar();
        let mut all = Outcome::default();
        for recording in recordings {
            let dir = recording.dir().display();
            bar.set_message(format!("exporting {dir}"));
            let outcome = export::to_directory(recording, self.format, &tables, &self.out, &|rows| {
                bar.set_position(rows);
            })
            .with_context(|| format!("{dir} is not exported"))?;
            all.written.extend(outcome.written);
            all.truncated.extend(outcome.truncated);
        }
        bar.finish_and_clear();
        Ok(all)
    }

    fn to_standard_output(&self, recordings: &[Recording]) -> anyhow::Result<Outcome> {
        ensure!(
            self.table.len() == 1 && self.format != Format::Hdr,
            "--out - takes one table; name it with --table, or name a directory"
        );
        let table = self.table.first().copied().context("no table was named")?;
        let out = std::io::BufWriter::new(std::io::stdout());
        match export::to_stream(recordings, self.format, table, out) {
            Err(error) if error.is_broken_pipe() => Ok(Outcome::default()),
            outcome => Ok(outcome?),
        }
    }
}

fn report(outcome: Outcome, whole: bool, json: bool) -> anyhow::Result<()> {
    if json {
        let file = |written: export::Written| File {
            path: written.path.display().to_string(),
            table: written.table,
            recording: written.recording,
            rows: written.rows,
        };
        let files = outcome.written.into_iter().map(file).collect();
        return output::print_json(&Document { schema: 1, files, whole });
    }
    let mut text = String::new();
    for written in &outcome.written {
        text += &format!("{}  {} rows\n", written.path.display(), written.rows);
    }
    output::print(&text)
}
