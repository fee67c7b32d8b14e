//! Runs the captured addresses through other data structures.
//!
//! The way: [`chunks`] reads a recording piece by piece. [`layouts`] and [`tables`] rebuild what was
//! searched, as a [`timeline`]. [`faults`] and [`translations`] give every event its layout and make
//! look-ups of it as the kernel did, past a last-used [`cache`]. [`fold`] takes them: [`prepared`] has the
//! engines of each layout, [`count`] runs the look-ups through them and checks every answer against
//! `linear`, [`reservoir`] keeps a sample. At the end [`timing`] times the engines, and [`predict`] says
//! what the calls would have taken.

mod cache;
mod chunks;
pub mod clock;
mod count;
mod direct;
mod engines;
mod event;
mod faults;
mod fold;
pub(crate) mod joined;
mod layouts;
mod outcome;
mod predict;
mod prepared;
mod reservoir;
mod run;
#[doc(hidden)]
pub mod synthetic;
mod tables;
mod text;
mod timeline;
mod timing;
mod translations;
mod unjoined;

pub use direct::{Direct, DirectEngine, DirectOptions, direct};
pub use engines::usual;
pub use outcome::{
    Check, ClassFit, ClassSteps, EngineOutcome, Fit, Interval, LastUsedCheck, LengthResiduals, Lengths,
    Prediction, ProbeReplay, Quantiles, Residuals, Steps,
};
pub use run::{Error, LastUsed, Options, Progress, run};
pub use text::{CANNOT_TELL, UNSOUND, direct_text, text};

#[cfg(test)]
mod direct_tests;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
