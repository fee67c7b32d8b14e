//! Reads a table in chunks.

use super::run::{Error, Progress, Report};
use crate::recording::{Rows, Stored};

/// A table that is read chunk by chunk.
pub(super) struct Chunks<T: Stored> {
    rows: Rows<T>,
    size: usize,
    read: u64,
}

impl<T: Stored> Chunks<T> {
    /// Chunks of so many rows.
    pub(super) fn new(rows: Rows<T>, size: usize) -> Self {
        Self { rows, size: size.max(1), read: 0 }
    }

    /// The next chunk, row by row; false if there was none.
    pub(super) fn next(
        &mut self,
        stage: &'static str,
        report: Report<'_>,
        mut each: impl FnMut(T),
    ) -> Result<bool, Error> {
        let mut any = false;
        for row in self.rows.by_ref().take(self.size) {
            each(row?);
            any = true;
            self.read += 1;
        }
        report(Progress { stage, done: self.read, total: None });
        Ok(any)
    }

    /// Once it is read: that it was cut off.
    pub(super) fn note(&self) -> Option<String> {
        self.rows.truncated().map(|truncated| truncated.to_string())
    }
}

/// Reads a whole table; notes if it was cut off.
pub(super) fn whole<T: Stored>(
    rows: Rows<T>,
    notes: &mut Vec<String>,
    report: Report<'_>,
    mut each: impl FnMut(T),
) -> Result<(), Error> {
    let mut chunks = Chunks::new(rows, 1 << 16);
    while chunks.next("reading layouts", report, &mut each)? {}
    notes.extend(chunks.note());
    Ok(())
}
