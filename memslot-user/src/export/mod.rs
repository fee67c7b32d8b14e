//! Recordings for other tools: Parquet, CSV and NDJSON in folders that are read as one table, and HdrHistogram logs.
//!
//! A file lies at `TABLE/host=H/kernel=K/date=D/RECORDING.EXTENSION`, so that exports of many hosts can be copied into
//! one folder. Every table begins with `recording` and, where rows have a time, `at`; `recordings`, `probes`, `vms`,
//! `devices` and `vhost_tables` hold what is in `meta.json`.

mod about;
mod error;
mod hdr;
mod place;
mod sink;
mod stamp;

pub use about::About;
pub use error::Error;

use crate::recording::{Recording, TableName, Truncated};
use place::Place;
use sink::Sink;
use stamp::Stamp;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What the files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Apache Parquet, compressed with zstd
    Parquet,
    /// Comma-separated values with a heading
    Csv,
    /// One JSON object a line
    Ndjson,
    /// HdrHistogram's interval log: latencies by probe and kind of call
    Hdr,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
            Self::Hdr => "hlog",
        }
    }
}

/// A table that can be exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// Of the recording.
    Rows(TableName),
    /// Of what `meta.json` says.
    About(About),
}

impl Table {
    /// All of them.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let rows = TableName::ALL.into_iter().map(Self::Rows);
        rows.chain(About::ALL.into_iter().map(Self::About)).collect()
    }

    /// Its name: the folder, and the word of `--table`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows(table) => table.name(),
            Self::About(about) => about.name(),
        }
    }
}

impl std::str::FromStr for Table {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::all().into_iter().find(|table| table.name() == name);
        found.ok_or_else(|| format!("there is no table {name}"))
    }
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Where it lies.
    pub path: PathBuf,
    /// The table; of a histogram log, `histograms`.
    pub table: &'static str,
    /// Name of the recording in the tables.
    pub recording: String,
    /// Rows, or histograms.
    pub rows: u64,
}

/// What came of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The files.
    pub written: Vec<Written>,
    /// Tables that were cut off.
    pub truncated: Vec<Truncated>,
}

/// Writes tables of a recording below `directory`. A file of the same recording that is there is replaced; what is
/// new appears whole or not at all. `progress` is told the rows that were written so far.
///
/// # Errors
/// The recording cannot be read, or a file cannot be written.
pub fn to_directory(
    recording: &Recording,
    format: Format,
    tables: &[Table],
    directory: &Path,
    progress: &dyn Fn(u64),
) -> Result<Outcome, Error> {
    let place = Place::new(directory, recording.meta());
    let mut outcome = Outcome::default();
    let mut done = 0;
    if format == Format::Hdr {
        let mut file = place.create("histograms", format.extension())?;
        let (rows, truncated) = hdr::write(recording, &mut file)?;
        let path = file.keep()?;
        outcome.truncated.extend(truncated);
        let recording = place.recording().to_owned();
        outcome.written.push(Written { path, table: "histograms", recording, rows });
        return Ok(outcome);
    }
    for &table in tables {
        let file = place.create(table.name(), format.extension())?;
        let path = file.path().to_owned();
        let stamp = Stamp::new(recording.meta(), place.recording());
        let mut sink = Sink::new(file, &path, format, &stamp.schema(table))?;
        let rows =
            pour(recording, table, &stamp, &mut sink, &mut outcome, &mut |rows| progress(done + rows))?;
        done += rows;
        let path = sink.finish()?.keep()?;
        let recording = place.recording().to_owned();
        outcome.written.push(Written { path, table: table.name(), recording, rows });
    }
    Ok(outcome)
}

/// Writes one table of several recordings to `out`, under one heading.
///
/// # Errors
/// A recording cannot be read, or `out` cannot be written.
pub fn to_stream<W: Write + Send>(
    recordings: &[Recording],
    format: Format,
    table: Table,
    out: W,
) -> Result<Outcome, Error> {
    let name = Path::new("standard output");
    let mut outcome = Outcome::default();
    let mut sink: Option<Sink<W>> = None;
    let mut out = Some(out);
    for recording in recordings {
        let id = place::recording_name(recording.meta());
        let stamp = Stamp::new(recording.meta(), &id);
        if let Some(out) = out.take() {
            sink = Some(Sink::new(out, name, format, &stamp.schema(table))?);
        }
        if let Some(sink) = &mut sink {
            pour(recording, table, &stamp, sink, &mut outcome, &mut |_| {})?;
        }
    }
    if let Some(sink) = sink {
        sink.finish()?.flush().map_err(|error| Error::of(name, &error))?;
    }
    Ok(outcome)
}

fn pour<W: Write + Send>(
    recording: &Recording,
    table: Table,
    stamp: &Stamp,
    sink: &mut Sink<W>,
    outcome: &mut Outcome,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, Error> {
    let mut rows = 0;
    match table {
        Table::About(about) => {
            let batch = stamp.stamp(&about.batch(recording.meta()))?;
            rows = batch.num_rows() as u64;
            sink.write(&batch)?;
        }
        Table::Rows(table) => {
            let mut batches = recording.batches(table)?;
            for batch in batches.by_ref() {
                let batch = stamp.stamp(&batch?)?;
                sink.write(&batch)?;
                rows += batch.num_rows() as u64;
                progress(rows);
            }
            outcome.truncated.extend(batches.truncated());
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests;
