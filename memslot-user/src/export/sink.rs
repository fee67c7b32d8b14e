//! Batches to bytes, by format.

use super::{Error, Format};
use arrow_array::RecordBatch;
use arrow_json::writer::{LineDelimited, WriterBuilder};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes batches of one table to one file.
pub(super) struct Sink<W: Write + Send> {
    path: PathBuf,
    writer: Writer<W>,
}

enum Writer<W: Write + Send> {
    Parquet(Box<ArrowWriter<W>>),
    Csv(arrow_csv::Writer<W>),
    Ndjson(arrow_json::Writer<W, LineDelimited>),
}

impl<W: Write + Send> Sink<W> {
    /// `path` is what `out` is called in errors.
    pub(super) fn new(out: W, path: &Path, format: Format, schema: &SchemaRef) -> Result<Self, Error> {
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
                Writer::Parquet(Box::new(writer.map_err(|error| Error::of(path, &error))?))
            }
            Format::Csv => {
                let mut writer = arrow_csv::WriterBuilder::new().with_header(true).build(out);
                // A table without rows has its heading nevertheless.
                writer
                    .write(&RecordBatch::new_empty(schema.clone()))
                    .map_err(|error| Error::of(path, &error))?;
                Writer::Csv(writer)
            }
            Format::Ndjson => {
                Writer::Ndjson(WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(out))
            }
            Format::Hdr => return Err(Error::Encode("histogram logs hold no rows".to_owned())),
        };
        Ok(Self { path: path.to_owned(), writer })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let path = &self.path;
        match &mut self.writer {
            Writer::Parquet(writer) => writer.write(batch).map_err(|error| Error::of(path, &error)),
            Writer::Csv(writer) => writer.write(batch).map_err(|error| Error::of(path, &error)),
            Writer::Ndjson(writer) => writer.write(batch).map_err(|error| Error::of(path, &error)),
        }
    }

    /// Ends the file and gives it back.
    pub(super) fn finish(self) -> Result<W, Error> {
        let path = self.path;
        match self.writer {
            Writer::Parquet(writer) => writer.into_inner().map_err(|error| Error::of(&path, &error)),
            Writer::Csv(writer) => Ok(writer.into_inner()),
            Writer::Ndjson(mut writer) => {
                writer.finish().map_err(|error| Error::of(&path, &error))?;
                Ok(writer.into_inner())
            }
        }
    }
}
