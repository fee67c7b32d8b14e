//! Where an export's files lie, and how they get there.

use super::Error;
use crate::recording::Meta;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// The folders and the file name of one recording's tables.
pub(super) struct Place {
    directory: PathBuf,
    partitions: [String; 3],
    recording: String,
}

/// When the recording began, in UTC: `2026-11-30T23:54:30.123456789Z`. On one host no two begin at once.
fn start(meta: &Meta) -> String {
    humantime::format_rfc3339_nanos(UNIX_EPOCH + Duration::from_nanos(meta.start.realtime)).to_string()
}

/// What the recording is called in tables: its host and its start.
pub(super) fn recording_name(meta: &Meta) -> String {
    let start = start(meta).replace(['-', ':'], "");
    format!("{}-{start}", encoded(&meta.host.name))
}

/// The text as a part of a path: whoever named the host, it stays below the export's folder. DuckDB, pyarrow, polars
/// and Spark decode it again.
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => encoded.push(char::from(byte)),
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    if encoded.is_empty() { "unknown".to_owned() } else { encoded }
}

impl Place {
    pub(super) fn new(directory: &Path, meta: &Meta) -> Self {
        let start = start(meta);
        let date = start.split('T').next().unwrap_or_default();
        let partitions = [("host", meta.host.name.as_str()), ("kernel", &meta.host.kernel), ("date", date)];
        Self {
            directory: directory.to_owned(),
            partitions: partitions.map(|(key, value)| format!("{key}={}", encoded(value))),
            recording: recording_name(meta),
        }
    }

    /// What the recording is called in tables.
    pub(super) fn recording(&self) -> &str {
        &self.recording
    }

    /// Creates a file of a table; it has its name once it is kept.
    pub(super) fn create(&self, table: &str, extension: &str) -> Result<NewFile, Error> {
        let mut folder = self.directory.join(table);
        folder.extend(&self.partitions);
        // Addresses of guests are nobody else's business, here as in a recording.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|error| Error::of(&folder, &error))?;
        let path = folder.join(format!("{}.{extension}", self.recording));
        NewFile::create(path)
    }
}

/// A file that takes its name when it is whole, and goes away if it never is.
pub(super) struct NewFile {
    path: PathBuf,
    /// Hidden, and without the extension: a reader of the folder does not take it for a table.
    temporary: PathBuf,
    file: BufWriter<File>,
    kept: bool,
}

impl NewFile {
    fn create(path: PathBuf) -> Result<Self, Error> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
        // One that a killed export left; a symbolic link is removed, not followed.
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(|error| Error::of(&path, &error))?;
        Ok(Self { path, temporary, file: BufWriter::with_capacity(1 << 16, file), kept: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name; which that is.
    pub(super) fn keep(mut self) -> Result<PathBuf, Error> {
        let kept = self.file.flush().and_then(|()| fs::rename(&self.temporary, &self.path));
        kept.map_err(|error| Error::of(&self.path, &error))?;
        self.kept = true;
        Ok(self.path.clone())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            // That it cannot be removed is no worse than that it could not be written.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hosts_stay_below_the_folder() {
        assert_eq!(encoded("../../etc/passwd"), "..%2F..%2Fetc%2Fpasswd");
        assert_eq!(encoded("6.12.9+deb12-amd64"), "6.12.9%2Bdeb12-amd64");
        assert_eq!(encoded("a\u{1b}[2J=ü"), "a%1B%5B2J%3D%C3%BC");
        assert_eq!(encoded(""), "unknown");
    }

    #[test]
    fn what_is_not_kept_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path(), &Meta::default());
        let mut file = place.create("faults", "csv").unwrap();
        file.write_all(b"half").unwrap();
        let (path, temporary) = (file.path.clone(), file.temporary.clone());
        assert!(temporary.exists() && !path.exists());
        drop(file);
        assert!(!temporary.exists() && !path.exists());
        let mut file = place.create("faults", "csv").unwrap();
        file.write_all(b"whole").unwrap();
        let kept = file.keep().unwrap();
        assert_eq!(fs::read(&kept).unwrap(), b"whole");
        let below = kept.strip_prefix(folder.path()).unwrap();
        let name = "unknown-19700101T000000.000000000Z.csv";
        assert_eq!(below, Path::new("faults/host=unknown/kernel=unknown/date=1970-01-01").join(name));
    }
}
