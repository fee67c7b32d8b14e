//! The engines on the probes' own clock.
//!
//! [`times`] is the file that lies beside a recording; [`measure`] makes it, on the host that recorded and
//! with its clock; [`predict`] puts the times in the place of the kernel's search. So predicted and observed
//! latency are of one kind: in the lab's exact mode both are instructions.

mod measure;
mod predict;
mod text;
mod times;

pub use measure::measure;
pub use predict::predict;
pub(super) use text::text;
pub(crate) use text::{kernels_own, own_error};
pub use times::{EngineTime, EngineTimes, Error, FILE, LengthTime, SameClock, SameClockEngine};

use super::event::Event;
use super::faults::faults;
use super::fold::{Fold, Group};
use super::run::{self, Options, Report};
use super::translations::translations;
use crate::model::Probe;
use crate::recording::Recording;
use crate::replay::ProbeReplay;

/// Adds what the times beside a recording predict, if there are any.
///
/// # Errors
/// The times are of no use, or the recording cannot be read.
pub fn predict_by_own(
    recording: &Recording,
    options: &Options,
    replays: &mut [ProbeReplay],
    report: Report<'_>,
) -> Result<(), Error> {
    if let Some(times) = EngineTimes::read(recording)? {
        predict(recording, &times, options, replays, report)?;
    }
    Ok(())
}

/// Hands a probe's look-ups to `visit`, layout by layout, each with the events that they come from: an
/// event's look-ups bear its place among these.
pub(super) fn groups(
    recording: &Recording,
    probe: Probe,
    options: &Options,
    report: Report<'_>,
    visit: &mut dyn FnMut(&[Event], &Group<'_>),
) -> Result<(), run::Error> {
    let mut fold = Fold::listening(probe, visit);
    match probe {
        Probe::PageFault => faults(recording, options, report, &mut fold),
        Probe::Translate => translations(recording, options, report, &mut fold),
        Probe::Ple => Err(run::Error::NoLookups(probe)),
    }
}

#[cfg(test)]
mod tests;
