//! One pass over the tables of a recording, for those who fold it into figures.

use super::{Error, Rows, Stored};
use std::sync::mpsc;

/// Batches that are read ahead: two of 65,536 rows are some MiB.
const AHEAD: usize = 2;
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

    /// Hands every row of a table to `take`. Another thread reads and decompresses meanwhile, which is about
    /// half of the work; it is a few batches ahead at most.
    pub(crate) fn each<T: Stored + Send>(
        &mut self,
        mut rows: Rows<T>,
        mut take: impl FnMut(&T),
    ) -> Result<(), Error> {
        std::thread::scope(|scope| {
            let (send, receive) = mpsc::sync_channel(AHEAD);
            let reader = scope.spawn(move || {
                while let Some(batch) = rows.next_batch() {
                    // Nobody receives any more after an error, which this one was.
                    if send.send(batch).is_err() {
                        break;
                    }
                }
                rows.truncated().is_some()
            });
            let mut decoded = Vec::new();
            for batch in receive {
                decoded.clear();
                batch?.rows(&mut decoded)?;
                for row in &decoded {
                    take(row);
                    self.rows += 1;
                    if self.rows.is_multiple_of(REPORT) {
                        (self.progress)(self.rows);
                    }
                }
            }
            self.cut_off |= reader.join().unwrap_or(true);
            Ok(())
        })
    }

    /// Was a table cut off?
    pub(crate) fn cut_off(&self) -> bool {
        self.cut_off
    }
}
