//! Layouts and addresses that come from files, a generator or QEMU's monitor instead of a recording.
//!
//! All addresses here are bytes. Whatever is wrong is told with its line.

mod addresses;
mod layout;
mod mtree;
mod pattern;
mod rows;

pub use addresses::{Access, addresses};
pub use layout::{Layout, layout};
pub use pattern::{Pattern, accesses};

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct Error {
    /// Line of the file, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub reason: String,
}

impl Error {
    fn new(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into() }
    }
}

#[cfg(test)]
mod tests;
