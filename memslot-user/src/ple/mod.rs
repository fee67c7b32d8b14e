//! PLE windows: what KVM did with them, and what other policies would have done.
//!
//! [`window`] and [`policy`] hold the kernel's formulas; `trail` holds the recorded windows against
//! them; `replay` cuts the recorded spins as other policies would have, once `pace` has found how long
//! a unit of the window lasts; [`sim`] is a host whose truth is known, for what no recording can tell.

mod pace;
pub mod policy;
mod replay;
pub mod sim;
mod table;
mod text;
mod trail;
pub mod window;

pub use replay::Replayed;
pub use table::{AgainstBase, Row, Table, simulate};
pub use text::{recorded_text, simulated_text};
pub use trail::{Follower, Trail};

use crate::model::PleExit;
use crate::recording::{self, Meta, Recording};
use pace::{Gauge, Pace};
use policy::Policy;
use serde::Serialize;
use std::collections::BTreeSet;
use window::{Parameters, Unit};

/// What only a host with PLE hardware could confirm; said with every result.
pub const UNCONFIRMED: &str = "that the hardware leaves the guest after exactly a window, that an episode's first exit \
     was spun for in full, and every figure of the simulator have not been confirmed on PLE hardware";

/// What a recording says about its windows.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Recorded {
    /// The recording's label.
    pub label: Option<String>,
    /// What the windows count.
    pub unit: Unit,
    /// The parameters in force.
    pub parameters: Parameters,
    /// vCPUs that exited.
    pub vcpus: u64,
    /// CPUs on which they did.
    pub cpus: u64,
    /// vCPUs a CPU, as far as they exited: 1 is undercommitted.
    pub load: f64,
    /// ns in the handler, time scheduled out included.
    pub handler_ns: u64,
    /// Calls of `yield_to`.
    pub yields: u64,
    /// Of them boosted.
    pub boosted: u64,
    /// Of them refused because both run queues held one task.
    pub undercommit: u64,
    /// From the first entry to the last return, ns.
    pub span_ns: u64,
    /// The windows against the kernel's rules.
    pub trail: Trail,
    /// ns of a unit of the window, given or estimated.
    pub ns_per_unit: Option<f64>,
    /// Why policies were not replayed.
    pub no_replay: Option<String>,
    /// Spins with an exit.
    pub spins: u64,
    /// By policy; the first is the base of comparisons.
    pub policies: Vec<Replayed>,
    /// What else to know.
    pub notes: Vec<String>,
    /// [`UNCONFIRMED`]
    pub unconfirmed: &'static str,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// The parameters are not in it.
    #[error(
        "the recording does not hold the PLE parameters of kvm_intel or kvm_amd; record again with the module loaded"
    )]
    NoParameters,
    /// A policy makes no sense.
    #[error("{0}")]
    Policy(String),
}

/// Analyses a recording. `policies` as [`Policy::parse`] reads them, the first being the base; none
/// given: the kernel's own and [`Policy::usual`]. `ns_per_unit`: how long a unit of the window lasts; else
/// it is estimated.
///
/// # Errors
/// The recording cannot be read or lacks the parameters, or a policy makes no sense.
pub fn analyse(
    recording: &Recording,
    policies: &[String],
    ns_per_unit: Option<f64>,
) -> Result<Recorded, Error> {
    let meta = recording.meta();
    let (parameters, unit) = Parameters::of_recording(meta).ok_or(Error::NoParameters)?;
    let policies = policies
        .iter()
        .map(|text| Policy::parse(text, parameters, unit))
        .collect::<Result<Vec<_>, _>>()
        .map_err(Error::Policy)?;
    let policies = if policies.is_empty() { Policy::usual(parameters) } else { policies };

    let mut follower = Follower::new(parameters);
    let mut gauge = Gauge::default();
    let (mut vcpus, mut cpus, mut ends) = (BTreeSet::new(), BTreeSet::new(), (u64::MAX, 0_u64));
    let (mut handler_ns, mut yields, mut boosted, mut undercommit) = (0_u64, 0, 0, 0);
    let notes = each(recording, |exit| {
        follower.add(exit);
        gauge.add(exit);
        vcpus.insert((exit.vm, exit.vcpu));
        cpus.insert(exit.cpu);
        ends = (ends.0.min(exit.time), ends.1.max(exit.time.saturating_add(exit.latency)));
        handler_ns = handler_ns.saturating_add(exit.latency);
        yields += u64::from(exit.yields);
        boosted += u64::from(exit.boosted);
        undercommit += u64::from(exit.undercommit);
    })?;
    let (pace, no_replay) = match (ns_per_unit, gauge.pace()) {
        (Some(given), _) | (None, Pace::Known(given)) => (Some(given), None),
        (None, Pace::TooFew) => {
            (None, Some("too few exits follow each other to tell how long a window lasts"))
        }
        (None, Pace::WindowIgnored) => (
            None,
            Some(
                "larger windows did not last longer here, as where software emulates the CPU: it leaves the guest at \
                 every PAUSE",
            ),
        ),
    };
    let (replayed, spins) = match pace {
        Some(pace) => {
            let mut replay = replay::Replay::new(parameters, pace, &policies);
            each(recording, |exit| replay.add(exit))?;
            replay.finish()
        }
        None => (Vec::new(), 0),
    };
    Ok(Recorded {
        label: meta.label.clone(),
        unit,
        parameters,
        vcpus: vcpus.len() as u64,
        cpus: cpus.len() as u64,
        load: load(vcpus.len(), cpus.len()),
        handler_ns,
        yields,
        boosted,
        undercommit,
        span_ns: ends.1.saturating_sub(ends.0),
        trail: follower.trail(),
        ns_per_unit: pace,
        no_replay: no_replay.map(str::to_owned),
        spins,
        policies: replayed,
        notes,
        unconfirmed: UNCONFIRMED,
    })
}

/// The tables to hold a recording against: the usual policies at 1x, 2x and 3x load, in cycles as in 2012, and
/// where it has another unit or other parameters in these.
///
/// # Errors
/// A sentence, where there is nothing to simulate.
pub fn simulate_for(meta: &Meta) -> Result<Vec<Table>, String> {
    let usual = (Parameters::defaults(Unit::Cycles), Unit::Cycles);
    let own = Parameters::of_recording(meta).filter(|own| *own != usual);
    let table = |(parameters, unit): (Parameters, Unit)| {
        simulate(&sim::Config::new(1, unit), &[1, 2, 3], &Policy::usual(parameters), 3)
    };
    [Some(usual), own].into_iter().flatten().map(table).collect()
}

#[expect(clippy::cast_precision_loss, reason = "a handful of vCPUs and CPUs")]
fn load(vcpus: usize, cpus: usize) -> f64 {
    vcpus as f64 / cpus.max(1) as f64
}

/// Reads the exits; returns what is to be said about the table.
fn each(recording: &Recording, mut visit: impl FnMut(&PleExit)) -> Result<Vec<String>, Error> {
    let mut rows = recording.ple_exits()?;
    for exit in rows.by_ref() {
        visit(&exit?);
    }
    Ok(rows.truncated().map(|truncated| truncated.to_string()).into_iter().collect())
}

#[cfg(test)]
mod tests;
