//! One pass over the tables of a recording, for those who fold it into figures.

use super::{Error, Rows, Stored};

/// Rows between two reports of progress.
const REPORT: u64 = 1 << 16;

/// Reads tables one after another, row by row, and remembers whether one was cut off.
pub(crate) struct Pass<'a> {
    rows: u64,
    cut_off: bool,
    progress: &'a dyn Fn(u64),
}

impl<'a> Pass<'a> {
    /// `progress` is told now and then how many rows were read, of all tables together.
    pub(crate) fn new(progress: &'a dyn Fn(u64)) -> Self {
        Self { rows: 0, cut_off: false, progress }
    }

    /// Hands every row of a table to `take`.
    pub(crate) fn each<T: Stored>(
        &mut self,
        mut rows: Rows<T>,
        mut take: impl FnMut(&T),
    ) -> Result<(), Error> {
        for row in rows.by_ref() {
            take(&row?);
            self.rows += 1;
            if self.rows.is_multiple_of(REPORT) {
                (self.progress)(self.rows);
            }
        }
        self.cut_off |= rows.truncated().is_some();
        Ok(())
    }

    /// Was a table cut off?
    pub(crate) fn cut_off(&self) -> bool {
        self.cut_off
    }
}
