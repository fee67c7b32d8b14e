//! From recordings to runs, in one pass over each table.

use super::run::{Builder, Pooled, Run};
use crate::recording::{Error, Pass, Recording};

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
    let mut pass = Pass::new(progress);
    pass.each(recording.slot_changes()?, |row| builder.add_slot_change(row))?;
    pass.each(recording.region_changes()?, |row| builder.add_region_change(row))?;
    pass.each(recording.faults()?, |row| builder.add_fault(row))?;
    pass.each(recording.ple_exits()?, |row| builder.add_ple_exit(row))?;
    pass.each(recording.translations()?, |row| builder.add_translation(row))?;
    Ok(builder.finish(name, pass.cut_off(), pooled))
}
