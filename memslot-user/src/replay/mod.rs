//! Runs the captured addresses through other data structures.

mod outcome;

pub use outcome::{EngineOutcome, Fit, Interval, Lengths, Prediction, ProbeReplay, Quantiles};
