//! From a recording to its digest, in one pass over each table.

use super::Digest;
use super::counted::Counted;
use crate::model::{AccountRow, Bucket, Fault, PleExit, Probe, SlotChange, Translation};
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
        for (probe, figures) in digest.probes_mut() {
            counted.complete(probe, figures);
        }
        let mut losses = Losses::new(digest.meta.start.monotonic);
        pass.each(recording.accounts()?, |row: &AccountRow| {
            if let Some((probe, from)) = losses.interval(row)
                && let Some((_, figures)) = digest.probes_mut().into_iter().find(|one| one.0 == probe)
            {
                figures.over_time.add_lost(from, row.time, row.account.lost());
            }
        })?;
        if pass.cut_off() {
            digest.meta.complete = false;
        }
        Ok(digest)
    }
}

/// When an interval of the accounts began: where the one before ended, whatever probe or VM it told of.
struct Losses {
    start: u64,
    end: u64,
}

impl Losses {
    fn new(start: u64) -> Self {
        Self { start, end: start }
    }

    /// Probe and begin of a row's interval, where calls were lost in it.
    fn interval(&mut self, row: &AccountRow) -> Option<(Probe, u64)> {
        if row.time > self.end {
            (self.start, self.end) = (self.end, row.time);
        }
        (row.account.lost() > 0).then_some((row.probe, self.start))
    }
}
