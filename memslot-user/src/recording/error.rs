//! What can go wrong with a recording: each a sentence with its remedy.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the recorder or the reader.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directory holds something already.
    #[error("{} is not empty; name another directory, or use --force to replace the recording in it", .0.display())]
    NotEmpty(PathBuf),
    /// A symbolic link stands where the directory or a file of it should be.
    #[error("{} is a symbolic link, which is not followed; name the place it points to", .0.display())]
    Symlink(PathBuf),
    /// Something that is no directory stands in the way.
    #[error("{} is no directory; name another place for the recording", .0.display())]
    NotADirectory(PathBuf),
    /// The disk, or the user's quota, is full.
    #[error("no space is left for {}; free some, or record to another file system", .0.display())]
    NoSpace(PathBuf),
    /// The file system cannot be written.
    #[error("{} is on a read-only file system; record to another one", .0.display())]
    ReadOnly(PathBuf),
    /// Permissions.
    #[error("no permission for {}; use another directory or another user", .0.display())]
    Denied(PathBuf),
    /// The directory or its parent does not exist.
    #[error("{} does not exist; check the path", .0.display())]
    NotFound(PathBuf),
    /// Somebody took the directory away while it was being written.
    #[error("{} was moved or removed while it was being recorded to; what was written went with it", .0.display())]
    Removed(PathBuf),
    /// Any other failure of the operating system.
    #[error("could not {what} {}: {}", path.display(), source.kind())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Not a recording.
    #[error("{} is no recording: it has no meta.json", .0.display())]
    NoMeta(PathBuf),
    /// `meta.json` is not what this version writes.
    #[error("{} cannot be understood ({reason}); the recording may be damaged", path.display())]
    BadMeta {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// A recording of a later version.
    #[error(
        "{} has recording format {found}, and this memslot reads up to {known}; use a newer memslot",
        path.display()
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest known.
        known: u32,
    },
    /// A table of a finished recording is not there.
    #[error("{} is missing, although the recording was finished; copy the whole directory", .0.display())]
    MissingTable(PathBuf),
    /// A table's bytes make no sense.
    #[error("{} is damaged at byte {at}: {reason}; copy it again, or record anew", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where the damaged message begins.
        at: u64,
        /// What is wrong.
        reason: String,
    },
    /// The encoder refused a batch; a defect of ours.
    #[error("could not encode rows for {}: {reason}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What it says.
        reason: String,
    },
}

impl Error {
    /// Makes a sentence of what the operating system said about `path`.
    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::NoSpace(path)
            }
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(path),
            io::ErrorKind::PermissionDenied => Self::Denied(path),
            io::ErrorKind::NotFound => Self::NotFound(path),
            io::ErrorKind::NotADirectory => Self::NotADirectory(path),
            _ => Self::Io { what, path, source },
        }
    }
}
