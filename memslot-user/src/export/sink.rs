//! Batches to bytes, by format.

use super::{Error, Format};
use arrow_array::RecordBatch;
use arrow_json::writer::{LineDelimited, WriterBuilder};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Writes batches of one table to one file.
pub(super) struct Sink<W: Write + Send> {
    path: PathBuf,
    failed: Failed,
    writer: Writer<Watched<W>>,
}

enum Writer<W: Write + Send> {
    Parquet(Box<ArrowWriter<W>>),
    Csv(Box<arrow_csv::Writer<W>>),
    Ndjson(arrow_json::Writer<W, LineDelimited>),
}

/// Why writing failed, which the libraries turn into text on the way.
#[derive(Clone, Default)]
struct Failed(Arc<Mutex<Option<ErrorKind>>>);

impl Failed {
    fn error(&self, path: &Path, error: &(dyn std::error::Error + 'static)) -> Error {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(kind) => Error::Write { path: path.to_owned(), kind },
            None => Error::of(path, error),
        }
    }

    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.inspect_err(|error| {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.kind());
        })
    }
}

/// A writer whose failures are noted.
struct Watched<W> {
    out: W,
    failed: Failed,
}

impl<W: Write> Write for Watched<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.out.write(bytes);
        self.failed.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.failed.note(result)
    }
}

impl<W: Write + Send> Sink<W> {
    /// `path` is what `out` is called in errors.
    pub(super) fn new(out: W, path: &Path, format: Format, schema: &SchemaRef) -> Result<Self, Error> {
        let failed = Failed::default();
        let out = Watched { out, failed: failed.clone() };
        let writer = match format {
            Format::Parquet => {
                let compression = Compression::ZSTD(ZstdLevel::default());
                let properties = WriterProperties::builder()
                    .set_compression(compression)
                    .set_created_by(format!("memslot {}", env!("CARGO_PKG_VERSION")))
                    .build();
                // Arrow's own types would make one reader see categories where another sees texts.
                let options =
                    ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
                let writer = ArrowWriter::try_new_with_options(out, schema.clone(), options);
                Writer::Parquet(Box::new(writer.map_err(|error| failed.error(path, &error))?))
            }
            Format::Csv => {
                let mut writer = arrow_csv::WriterBuilder::new().with_header(true).build(out);
                // A table without rows has its heading nevertheless.
                writer
                    .write(&RecordBatch::new_empty(schema.clone()))
                    .map_err(|error| failed.error(path, &error))?;
                Writer::Csv(Box::new(writer))
            }
            Format::Ndjson => {
                Writer::Ndjson(WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(out))
            }
            Format::Hdr => return Err(Error::Encode("histogram logs hold no rows".to_owned())),
        };
        Ok(Self { path: path.to_owned(), failed, writer })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let (path, failed) = (&self.path, &self.failed);
        match &mut self.writer {
            Writer::Parquet(writer) => writer.write(batch).map_err(|error| failed.error(path, &error)),
            Writer::Csv(writer) => writer.write(batch).map_err(|error| failed.error(path, &error)),
            Writer::Ndjson(writer) => writer.write(batch).map_err(|error| failed.error(path, &error)),
        }
    }

    /// Ends the file and gives it back.
    pub(super) fn finish(self) -> Result<W, Error> {
        let Self { path, failed, writer } = self;
        let watched = match writer {
            Writer::Parquet(writer) => writer.into_inner().map_err(|error| failed.error(&path, &error))?,
            Writer::Csv(writer) => writer.into_inner(),
            Writer::Ndjson(mut writer) => {
                writer.finish().map_err(|error| failed.error(&path, &error))?;
                writer.into_inner()
            }
        };
        Ok(watched.out)
    }
}
