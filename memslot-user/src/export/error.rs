//! What can go wrong with an export.

use crate::recording;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// An error of an export.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// A file cannot be written.
    #[error("cannot write {}: {kind}; choose another place or make room", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        kind: ErrorKind,
    },
    /// A library refused the rows.
    #[error("the table cannot be written as asked: {0}; please report it with the recording")]
    Encode(String),
}

impl Error {
    /// A failure of writing `path`; the cause is looked for below what a library made of it.
    pub(super) fn of(path: &Path, error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<std::io::Error>() {
                return Self::Write { path: path.to_owned(), kind: error.kind() };
            }
            cause = error.source();
        }
        Self::Encode(error.to_string())
    }

    /// Has the reader of the output gone?
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write { kind: ErrorKind::BrokenPipe, .. })
    }
}
