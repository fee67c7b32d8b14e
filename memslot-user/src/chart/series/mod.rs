//! The numbers of each chart, before any pixel.

pub(crate) mod bins;
pub(crate) mod distribution;
pub(crate) mod latency;
pub(crate) mod layout;
pub(crate) mod length_latency;
pub(crate) mod ple_policies;
pub(crate) mod prediction;
pub(crate) mod residuals;
pub(crate) mod scaling;
pub(crate) mod search_length;
