//! Writes a recording.

use super::error::Error;
use super::figures::{BucketRow, CountsRow};
use super::row::{Row, Stored};
use super::tables::{FaultRow, PleRow, RegionRow, SlotRow, TranslationRow};
use super::{META_FILE, Meta, SCHEMA};
use crate::model::{AccountRow, Bucket, Fault, PleExit, RegionChange, SlotChange, Translation};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Rows of a batch: what a crash can cost at most, if `flush` is never called.
const BATCH_ROWS: usize = 65_536;

/// zstd's level: the recorder shares the host with what it measures, and higher levels save little.
const LEVEL: i32 = 1;

/// Where `meta.json` is written before it takes its name.
const META_TEMPORARY: &str = "meta.json.tmp";

/// How a recording is created.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Replace the recording that the directory holds. Other files in it are left alone.
    pub force: bool,
}

/// Writes a recording: push events, `flush` now and then, `finish` at the end.
///
/// After an error nothing that was written before is lost: the tables end at their last whole batch,
/// and the rows of the failed batch are tried again by the next `flush` or by `finish`. A recorder
/// that meets an error should stop, since those rows are held in memory.
pub struct Writer {
    dir: PathBuf,
    /// Device and inode of the directory, to notice that it went away.
    identity: (u64, u64),
    faults: Table<FaultRow>,
    ple_exits: Table<PleRow>,
    translations: Table<TranslationRow>,
    slots: Table<SlotRow>,
    regions: Table<RegionRow>,
    histograms: Table<BucketRow>,
    accounts: Table<CountsRow>,
}

impl Writer {
    /// Creates the directory, with a `meta.json` that says the recording is incomplete, and its
    /// empty tables. The directory is made for its owner only; its parent must exist.
    ///
    /// # Errors
    /// The directory holds something and `force` is not given, or it cannot be written.
    pub fn create(dir: &Path, meta: &Meta, options: Options) -> Result<Self, Error> {
        claim(dir, options)?;
        let found = fs::symlink_metadata(dir).map_err(|error| Error::io("look at", dir, error))?;
        // First, so that a recorder that is killed at any moment leaves a recording.
        write_meta(dir, Meta { schema: SCHEMA, complete: false, ..meta.clone() })?;
        Ok(Self {
            dir: dir.to_path_buf(),
            identity: (found.dev(), found.ino()),
            faults: Table::create(dir, BATCH_ROWS)?,
            ple_exits: Table::create(dir, BATCH_ROWS)?,
            translations: Table::create(dir, BATCH_ROWS)?,
            slots: Table::create(dir, 0)?,
            regions: Table::create(dir, 0)?,
            histograms: Table::create(dir, 0)?,
            accounts: Table::create(dir, 0)?,
        })
    }

    /// Adds a fault.
    ///
    /// # Errors
    /// A full batch could not be written.
    pub fn push_fault(&mut self, fault: &Fault) -> Result<(), Error> {
        self.faults.push(fault)
    }

    /// Adds a PLE exit.
    ///
    /// # Errors
    /// A full batch could not be written.
    pub fn push_ple_exit(&mut self, exit: &PleExit) -> Result<(), Error> {
        self.ple_exits.push(exit)
    }

    /// Adds a translation.
    ///
    /// # Errors
    /// A full batch could not be written.
    pub fn push_translation(&mut self, call: &Translation) -> Result<(), Error> {
        self.translations.push(call)
    }

    /// Adds a change of a VM's slots.
    ///
    /// # Errors
    /// A full batch could not be written.
    pub fn push_slot_change(&mut self, change: &SlotChange) -> Result<(), Error> {
        self.slots.push(change)
    }

    /// Adds a change of a vhost table.
    ///
    /// # Errors
    /// A full batch could not be written.
    pub fn push_region_change(&mut self, change: &RegionChange) -> Result<(), Error> {
        self.regions.push(change)
    }

    /// Adds what came into a bucket of a histogram.
    ///
    /// # Errors
    /// A full batch could not be written.
    pub fn push_bucket(&mut self, bucket: &Bucket) -> Result<(), Error> {
        self.histograms.push(bucket)
    }

    /// Adds what was counted of a probe.
    ///
    /// # Errors
    /// A full batch could not be written.
    pub fn push_account(&mut self, row: &AccountRow) -> Result<(), Error> {
        self.accounts.push(row)
    }

    /// Writes what was pushed as whole batches, which a reader can then read. Layouts go first, so
    /// that a crash in between leaves no event without its layout.
    ///
    /// # Errors
    /// The directory was taken away, or cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.check_present()?;
        self.slots.flush()?;
        self.regions.flush()?;
        self.faults.flush()?;
        self.ple_exits.flush()?;
        self.translations.flush()?;
        self.histograms.flush()?;
        self.accounts.flush()
    }

    /// Writes `meta.json` of the unfinished recording anew, e.g. when a VM was met.
    ///
    /// # Errors
    /// It cannot be written; the old one is then still there.
    pub fn write_meta(&self, meta: &Meta) -> Result<(), Error> {
        write_meta(&self.dir, Meta { schema: SCHEMA, complete: false, ..meta.clone() })
    }

    /// Ends the tables and writes the final `meta.json`, marked complete. Returns the bytes that the
    /// tables take.
    ///
    /// # Errors
    /// Something cannot be written; the recording then stays marked incomplete, and readable.
    pub fn finish(mut self, meta: Meta) -> Result<u64, Error> {
        self.flush()?;
        let bytes = self.slots.finish()?
            + self.regions.finish()?
            + self.faults.finish()?
            + self.ple_exits.finish()?
            + self.translations.finish()?
            + self.histograms.finish()?
            + self.accounts.finish()?;
        write_meta(&self.dir, Meta { schema: SCHEMA, complete: true, ..meta })?;
        Ok(bytes)
    }

    /// The open files of a removed directory take writes without a word; so look whether it is there.
    fn check_present(&self) -> Result<(), Error> {
        match fs::symlink_metadata(&self.dir) {
            Ok(found) if (found.dev(), found.ino()) == self.identity => Ok(()),
            Ok(_) => Err(Error::Removed(self.dir.clone())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::Removed(self.dir.clone())),
            Err(error) => Err(Error::io("look at", &self.dir, error)),
        }
    }
}

#[cfg(test)]
impl Writer {
    /// Puts another file in the place of the faults' one, to see what its failures do.
    pub(super) fn swap_fault_file(&mut self, file: File) -> File {
        std::mem::replace(&mut self.faults.file, file)
    }
}

/// Makes sure that `dir` is an empty directory, or one whose recording may be replaced.
fn claim(dir: &Path, options: Options) -> Result<(), Error> {
    match fs::symlink_metadata(dir) {
        Ok(found) if found.is_symlink() => return Err(Error::Symlink(dir.to_path_buf())),
        Ok(found) if !found.is_dir() => return Err(Error::NotADirectory(dir.to_path_buf())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return DirBuilder::new()
                .mode(0o700)
                .create(dir)
                .map_err(|error| Error::io("create the directory", dir, error));
        }
        Err(error) => return Err(Error::io("look at", dir, error)),
    }
    let mut entries = fs::read_dir(dir).map_err(|error| Error::io("list", dir, error))?;
    if entries.next().is_none() {
        return Ok(());
    }
    if !options.force {
        return Err(Error::NotEmpty(dir.to_path_buf()));
    }
    // meta.json first: without it, nothing half removed is taken for a recording.
    let files = [META_FILE, META_TEMPORARY, FaultRow::FILE, PleRow::FILE, TranslationRow::FILE];
    for file in files.into_iter().chain([SlotRow::FILE, RegionRow::FILE, BucketRow::FILE, CountsRow::FILE]) {
        remove(&dir.join(file))?;
    }
    Ok(())
}

/// Removes a file, or the symbolic link itself; it need not exist.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, error)),
        _ => Ok(()),
    }
}

/// Creates a file for its owner only; it must not exist, not even as a symbolic link.
fn create_file(path: &Path) -> Result<File, Error> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        match error.kind() {
            io::ErrorKind::AlreadyExists => Error::NotEmpty(path.to_path_buf()),
            _ => Error::io("create", path, error),
        }
    })
}

/// Writes `meta.json` so that at any time either the old or the new one is there, whole.
fn write_meta(dir: &Path, meta: Meta) -> Result<(), Error> {
    let (temporary, path) = (dir.join(META_TEMPORARY), dir.join(META_FILE));
    let mut text = serde_json::to_string_pretty(&meta)
        .map_err(|error| Error::Encode { path: path.clone(), reason: error.to_string() })?;
    text.push('\n');
    remove(&temporary)?;
    let mut file = create_file(&temporary)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, &path))
        .and_then(|()| File::open(dir)?.sync_all())
        .map_err(|error| Error::io("write", &path, error))
}

/// One table: the rows of the batch that is filling, and its file.
struct Table<R: Row> {
    columns: R::Columns,
    rows: usize,
    capacity: usize,
    path: PathBuf,
    file: File,
    /// Encodes into memory, so that a failed write to the file cannot tear a batch.
    encoder: StreamWriter<Vec<u8>>,
    /// Length of the file up to the end of its last whole batch.
    written: u64,
}

impl<R: Row> Table<R> {
    fn create(dir: &Path, capacity: usize) -> Result<Self, Error> {
        let path = dir.join(R::FILE);
        let encoder = IpcWriteOptions::default()
            .try_with_compression(Some(CompressionType::ZSTD))
            .and_then(|options| options.try_with_compression_level(Some(LEVEL)))
            .and_then(|options| StreamWriter::try_new_with_options(Vec::new(), &R::schema(), options))
            .map_err(|error| Error::Encode { path: path.clone(), reason: error.to_string() })?;
        let file = create_file(&path)?;
        let columns = R::columns(capacity);
        let mut table = Self { columns, rows: 0, capacity, path, file, encoder, written: 0 };
        table.write_out()?;
        Ok(table)
    }

    #[inline]
    fn push(&mut self, model: &R::Model) -> Result<(), Error> {
        R::from_model(model).append(&mut self.columns);
        self.rows += 1;
        if self.rows == BATCH_ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.rows > 0 {
            let batch = R::finish(&mut self.columns);
            self.rows = 0;
            self.columns = R::columns(self.capacity);
            self.encode(|encoder| encoder.write(&batch?))?;
        }
        self.write_out()
    }

    fn finish(&mut self) -> Result<u64, Error> {
        self.encode(StreamWriter::finish)?;
        self.write_out()?;
        self.file.sync_all().map_err(|error| Error::io("write", &self.path, error))?;
        Ok(self.written)
    }

    fn encode(
        &mut self,
        encode: impl FnOnce(&mut StreamWriter<Vec<u8>>) -> Result<(), arrow_schema::ArrowError>,
    ) -> Result<(), Error> {
        encode(&mut self.encoder)
            .map_err(|error| Error::Encode { path: self.path.clone(), reason: error.to_string() })
    }

    /// Moves what is encoded into the file. What could not be written whole is cut off again and kept
    /// for the next time.
    fn write_out(&mut self) -> Result<(), Error> {
        let bytes = self.encoder.get_mut();
        if let Err(error) = self.file.write_all(bytes) {
            // The first failure is the one to report; a failing repair leaves a cut-off batch, which
            // the reader knows how to deal with.
            let _ = self.file.set_len(self.written);
            let _ = self.file.seek(SeekFrom::Start(self.written));
            return Err(Error::io("write", &self.path, error));
        }
        self.written += bytes.len() as u64;
        bytes.clear();
        Ok(())
    }
}

/// The tables' rows belong to the model's structures; this fails to compile if one is forgotten.
const _: fn() = || {
    fn stored<T: Stored>() {}
    stored::<Fault>();
    stored::<PleExit>();
    stored::<Translation>();
    stored::<SlotChange>();
    stored::<RegionChange>();
    stored::<Bucket>();
    stored::<AccountRow>();
};
