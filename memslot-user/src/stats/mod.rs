//! The statistics that figures rest on: quantiles with intervals, robust lines, the bootstrap.

mod bootstrap;
mod line;
mod quantile;
mod sample;

pub use bootstrap::{BlockBootstrap, percentile_interval};
pub use line::{Line, r_squared, theil_sen, theil_sen_weighted};
pub use quantile::{median, median_interval, median_ranks, quantile, quantile_unsorted};
pub use sample::Sample;
