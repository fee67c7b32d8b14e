//! From a recording to its digest, in one pass over each table.

use super::Digest;
use super::counted::Counted;
use crate::model::{Bucket, Fault, PleExit, Probe, SlotChange, Translation};
use crate::recording::{Error, Recording, Rows, Stored};

/// Rows between two reports of progress.
const REPORT: u64 = 1 << 16;

impl Digest {
    /// Reads a recording; its memory does not grow with the number of events. `progress` is told now
    /// and then how many rows were read. Where a table was cut off, the digest's `meta` says that
    /// the recording is incomplete, whatever `meta.json` says.
    ///
    /// # Errors
    /// A table is missing, or its content cannot be understood.
    pub fn read(recording: &Recording, label: String, progress: &dyn Fn(u64)) -> Result<Self, Error> {
        let mut digest = Self::new(label, recording.meta().clone());
        let mut reading = Reading { rows: 0, cut_off: false, progress };
        reading.each(recording.slot_changes()?, |change: &SlotChange| digest.add_slot_change(change))?;
        reading.each(recording.faults()?, |fault: &Fault| digest.add_fault(fault))?;
        reading.each(recording.ple_exits()?, |exit: &PleExit| digest.add_ple_exit(exit))?;
        reading.each(recording.translations()?, |call: &Translation| digest.add_translation(call))?;
        let mut counted = Counted::default();
        reading.each(recording.histograms()?, |bucket: &Bucket| counted.add(bucket))?;
        counted.complete(Probe::PageFault, &mut digest.faults);
        counted.complete(Probe::Ple, &mut digest.ple);
        counted.complete(Probe::Translate, &mut digest.translations);
        if reading.cut_off {
            digest.meta.complete = false;
        }
        Ok(digest)
    }
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
