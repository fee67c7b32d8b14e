//! Runs the captured addresses through other data structures.
//!
//! The way: [`layouts`] and [`tables`] rebuild what was searched, [`join`] gives every event its
//! layout and makes look-ups of it as the kernel did, [`count`] runs them through the engines and
//! checks every answer against `linear`, [`timing`] times them, [`predict`] says what the calls would
//! have taken.

pub mod clock;
mod count;
mod direct;
mod engines;
mod join;
mod layouts;
mod outcome;
mod predict;
mod run;
#[doc(hidden)]
pub mod synthetic;
mod tables;
mod text;
mod timing;

pub use direct::{Direct, DirectEngine, DirectOptions, Steps, direct};
pub use engines::usual;
pub use outcome::{
    Check, ClassFit, EngineOutcome, Fit, Interval, LengthResiduals, Lengths, Prediction, ProbeReplay,
    Quantiles, Residuals,
};
pub use run::{Error, Options, Progress, run};
pub use text::{CANNOT_TELL, UNSOUND, direct_text, text};

#[cfg(test)]
mod direct_tests;
#[cfg(test)]
mod tests;
