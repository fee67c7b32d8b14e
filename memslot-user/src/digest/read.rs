//! From a recording to its digest, in one pass over each table.

use super::Digest;
use super::counted::Counted;
use crate::model::{Bucket, Fault, PleExit, Probe, SlotChange, Translation};
use crate::recording::{Error, Pass, Recording};

impl Digest {
    /// Reads a recording; its memory does not grow with the number of events. `progress` is told now
    /// and then how many rows were read. Where a table was cut off, the digest's `meta` says that
    /// the recording is incomplete, whatever `meta.json` says.
    ///
    /// # Errors
    /// A table is missing, or its content cannot be understood.
    pub fn read(recording: &Recording, label: String, progress: &dyn Fn(u64)) -> Result<Self, Error> {
        let mut digest = Self::new(label, recording.meta().clone());
        let mut pass = Pass::new(progress);
        pass.each(recording.slot_changes()?, |change: &SlotChange| digest.add_slot_change(change))?;
        pass.each(recording.faults()?, |fault: &Fault| digest.add_fault(fault))?;
        pass.each(recording.ple_exits()?, |exit: &PleExit| digest.add_ple_exit(exit))?;
        pass.each(recording.translations()?, |call: &Translation| digest.add_translation(call))?;
        let mut counted = Counted::default();
        pass.each(recording.histograms()?, |bucket: &Bucket| counted.add(bucket))?;
        counted.complete(Probe::PageFault, &mut digest.faults);
        counted.complete(Probe::Ple, &mut digest.ple);
        counted.complete(Probe::Translate, &mut digest.translations);
        if pass.cut_off() {
            digest.meta.complete = false;
        }
        Ok(digest)
    }
}
