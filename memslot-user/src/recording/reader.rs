//! Reads a recording, whole or cut off.

use super::error::Error;
use super::frame::{Frame, Frames};
use super::row::{Row, Stored};
use super::{META_FILE, Meta, SCHEMA};
use crate::model::{AccountRow, Bucket, Fault, PleExit, RegionChange, SlotChange, Translation};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_schema::Schema;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A recording that was opened.
#[derive(Clone, Debug)]
pub struct Recording {
    dir: PathBuf,
    meta: Meta,
}

impl Recording {
    /// Opens the recording in `dir`.
    ///
    /// # Errors
    /// It has no `meta.json`, one that cannot be understood, or one of a newer version.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(META_FILE);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound if dir.is_dir() => Error::NoMeta(dir.to_path_buf()),
            io::ErrorKind::NotFound => Error::NotFound(dir.to_path_buf()),
            io::ErrorKind::InvalidData => {
                Error::BadMeta { path: path.clone(), reason: "it is no text".to_owned() }
            }
            _ => Error::io("read", &path, error),
        })?;
        let bad = |error: serde_json::Error| Error::BadMeta { path: path.clone(), reason: error.to_string() };
        // The version first: the rest of a newer one may well not fit our structure.
        let version: Version = serde_json::from_str(&text).map_err(bad)?;
        if version.schema > SCHEMA {
            return Err(Error::NewerSchema { path, found: version.schema, known: SCHEMA });
        }
        if version.schema == 0 {
            let reason = "its schema is 0, which never was".to_owned();
            return Err(Error::BadMeta { path, reason });
        }
        let mut meta: Meta = serde_json::from_str(&text).map_err(bad)?;
        if version.schema == 1 {
            meta.probes.values_mut().for_each(|probe| probe.account.complete_version_1());
        }
        Ok(Self { dir: dir.to_path_buf(), meta })
    }

    /// Where it lies.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its `meta.json`.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Its faults, in the order in which they ended.
    ///
    /// # Errors
    /// The table is missing or cannot be opened.
    pub fn faults(&self) -> Result<Rows<Fault>, Error> {
        self.rows()
    }

    /// Its PLE exits.
    ///
    /// # Errors
    /// The table is missing or cannot be opened.
    pub fn ple_exits(&self) -> Result<Rows<PleExit>, Error> {
        self.rows()
    }

    /// Its translations.
    ///
    /// # Errors
    /// The table is missing or cannot be opened.
    pub fn translations(&self) -> Result<Rows<Translation>, Error> {
        self.rows()
    }

    /// The changes of its VMs' slots.
    ///
    /// # Errors
    /// The table is missing or cannot be opened.
    pub fn slot_changes(&self) -> Result<Rows<SlotChange>, Error> {
        self.rows()
    }

    /// The changes of its vhost tables.
    ///
    /// # Errors
    /// The table is missing or cannot be opened.
    pub fn region_changes(&self) -> Result<Rows<RegionChange>, Error> {
        self.rows()
    }

    /// What its histograms gained by interval; none in a recording of version 1.
    ///
    /// # Errors
    /// The table is missing or cannot be opened.
    pub fn histograms(&self) -> Result<Rows<Bucket>, Error> {
        self.rows()
    }

    /// Its accounts by interval; none in a recording of version 1.
    ///
    /// # Errors
    /// The table is missing or cannot be opened.
    pub fn accounts(&self) -> Result<Rows<AccountRow>, Error> {
        self.rows()
    }

    fn rows<T: Stored>(&self) -> Result<Rows<T>, Error> {
        let path = self.dir.join(T::Row::FILE);
        if self.meta.schema < T::Row::SINCE {
            return Ok(Rows::empty_with(None));
        }
        match File::open(&path) {
            Ok(file) => Rows::new(path, file),
            // Cut off before the table was created.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.meta.complete => {
                Ok(Rows::empty(T::Row::FILE))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::MissingTable(path)),
            Err(error) => Err(Error::io("open", &path, error)),
        }
    }
}

/// The part of `meta.json` that every version has.
#[derive(serde::Deserialize)]
struct Version {
    schema: u32,
}

/// A table that ends before its end marker: the recorder was killed, or the disk was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The table's file.
    pub file: &'static str,
    /// Bytes behind the last whole batch, which cannot be read.
    pub bytes: u64,
}

impl std::fmt::Display for Truncated {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} was cut off; its whole batches were read", self.file)?;
        if self.bytes > 0 {
            write!(out, " and {} bytes after them left out", self.bytes)?;
        }
        Ok(())
    }
}

/// The rows of a table, read batch by batch. After an error it ends.
pub struct Rows<T: Stored> {
    frames: Option<Frames>,
    decoder: StreamDecoder,
    batch: Vec<T>,
    next: usize,
    truncated: Option<Truncated>,
}

impl<T: Stored> Rows<T> {
    fn new(path: PathBuf, file: File) -> Result<Self, Error> {
        let frames = Frames::new(path, file, T::Row::schema().fields().len())?;
        Ok(Self { frames: Some(frames), ..Self::empty_with(None) })
    }

    fn empty(file: &'static str) -> Self {
        Self::empty_with(Some(Truncated { file, bytes: 0 }))
    }

    fn empty_with(truncated: Option<Truncated>) -> Self {
        Self { frames: None, decoder: StreamDecoder::new(), batch: Vec::new(), next: 0, truncated }
    }

    /// Once the rows are read to their end: whether the table was cut off.
    #[must_use]
    pub fn truncated(&self) -> Option<Truncated> {
        self.truncated
    }

    /// The next batch, whose rows are still to be decoded; nothing at the end.
    pub(crate) fn next_batch(&mut self) -> Option<Result<Batch, Error>> {
        let batch = self.batch().transpose();
        if matches!(batch, Some(Err(_)) | None) {
            self.frames = None;
        }
        batch
    }

    /// Reads messages until one is a batch.
    fn batch(&mut self) -> Result<Option<Batch>, Error> {
        loop {
            let Some(frames) = &mut self.frames else { return Ok(None) };
            let message = match frames.next()? {
                Frame::Message(message) => message,
                Frame::End => return Ok(None),
                Frame::CutOff => {
                    self.truncated = Some(Truncated { file: T::Row::FILE, bytes: frames.remaining() });
                    return Ok(None);
                }
            };
            if let Some(batch) = decode::<T>(frames, &mut self.decoder, message)? {
                return Ok(Some(batch));
            }
        }
    }

    /// Decodes the next batch that has rows; false at the end.
    fn fill(&mut self) -> Result<bool, Error> {
        self.batch.clear();
        self.next = 0;
        while self.batch.is_empty() {
            match self.next_batch() {
                Some(batch) => batch?.rows(&mut self.batch)?,
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// A batch of a table as it is stored.
pub(crate) struct Batch {
    columns: RecordBatch,
    path: PathBuf,
    at: u64,
}

impl Batch {
    /// Decodes its rows and appends them.
    pub(crate) fn rows<T: Stored>(self, rows: &mut Vec<T>) -> Result<(), Error> {
        T::Row::decode(&self.columns, rows).map_err(|reason| Error::Corrupt {
            path: self.path,
            at: self.at,
            reason,
        })
    }
}

/// Has the table the columns that we know, but for some that may be null, which older versions lack?
fn fits(found: &Schema, known: &Schema) -> bool {
    let mut found = found.fields().iter().peekable();
    let fit = known
        .fields()
        .iter()
        .all(|field| found.next_if(|found| *found == field).is_some() || field.is_nullable());
    fit && found.next().is_none()
}

/// Decodes one message; what it holds, if it is a batch.
fn decode<T: Stored>(
    frames: &mut Frames,
    decoder: &mut StreamDecoder,
    message: Vec<u8>,
) -> Result<Option<Batch>, Error> {
    if frames.at() == 0 {
        let schema =
            try_schema_from_ipc_buffer(&message).map_err(|error| frames.corrupt(error.to_string()))?;
        if !fits(&schema, &T::Row::schema()) {
            return Err(frames.corrupt("its columns are not those of this recording format"));
        }
        frames.expect_columns(schema.fields().len());
    }
    let length = message.len();
    let mut buffer = Buffer::from_vec(message);
    let mut batch = None;
    while !buffer.is_empty() {
        // A message is one batch at most.
        batch = decoder.decode(&mut buffer).map_err(|error| frames.corrupt(error.to_string()))?.or(batch);
    }
    let batch = batch.map(|columns| Batch { columns, path: frames.path().to_owned(), at: frames.at() });
    frames.advance(length);
    Ok(batch)
}

impl<T: Stored> Iterator for Rows<T> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.batch.len() {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.frames = None;
                    return Some(Err(error));
                }
            }
        }
        let row = self.batch.get(self.next).copied()?;
        self.next += 1;
        Some(Ok(row))
    }
}
