//! From recordings to runs, in one pass over each table.

use super::run::{Builder, Pooled, Run};
use crate::recording::{Error, Recording, Rows, Stored};

/// Rows between two reports of progress.
const REPORT: u64 = 1 << 16;

/// Reads a recording; memory does not grow with its number of events. `progress` is told now and then how many
/// rows were read.
///
/// # Errors
/// A table is missing, or its content cannot be understood.
pub fn read(
    recording: &Recording,
    name: String,
    pooled: &mut Pooled,
    progress: &dyn Fn(u64),
) -> Result<Run, Error> {
    let mut builder = Builder::new(recording.meta().clone());
    let mut reading = Reading { rows: 0, cut_off: false, progress };
    reading.each(recording.slot_changes()?, |row| builder.add_slot_change(row))?;
    reading.each(recording.region_changes()?, |row| builder.add_region_change(row))?;
    reading.each(recording.faults()?, |row| builder.add_fault(row))?;
    reading.each(recording.ple_exits()?, |row| builder.add_ple_exit(row))?;
    reading.each(recording.translations()?, |row| builder.add_translation(row))?;
    Ok(builder.finish(name, reading.cut_off, pooled))
}

struct Reading<'a> {
    rows: u64,
    cut_off: bool,
    progress: &'a dyn Fn(u64),
}

impl Reading<'_> {
    fn each<T: Stored>(&mut self, mut rows: Rows<T>, mut take: impl FnMut(&T)) -> Result<(), Error> {
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
}
