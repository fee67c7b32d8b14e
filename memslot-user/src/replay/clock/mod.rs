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

use super::engines::Lookup;
use super::join::{self, Event, Group, Joined};
use super::run::{self, Report};
use crate::model::Probe;
use crate::recording::Recording;

/// Hands a probe's look-ups to `visit`, layout by layout, each with the events that they come from: an
/// event's look-ups bear its place among these.
fn groups(
    recording: &Recording,
    probe: Probe,
    last_used: bool,
    report: Report<'_>,
    visit: &mut dyn FnMut(&[Event], &Group<'_>),
) -> Result<(), run::Error> {
    let mut seen = 0;
    let mut each = |joined: &Joined, group: &Group<'_>| {
        let events = joined.events.get(seen..).unwrap_or_default();
        let first = u32::try_from(seen).unwrap_or(u32::MAX);
        let lookups: Vec<Lookup> = group
            .lookups
            .iter()
            .map(|lookup| Lookup { event: lookup.event.saturating_sub(first), ..*lookup })
            .collect();
        visit(events, &Group { lookups: &lookups, ..*group });
        seen = joined.events.len();
    };
    match probe {
        Probe::PageFault => join::faults(recording, last_used, report, &mut each)?,
        Probe::Translate => join::translations(recording, report, &mut each)?,
        Probe::Ple => return Err(run::Error::NoLookups(probe)),
    };
    Ok(())
}

#[cfg(test)]
mod tests;
