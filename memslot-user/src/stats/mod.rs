//! The statistics that figures rest on: quantiles with intervals, robust lines, the bootstrap,
//! rank tests and their correction for many.

mod adjust;
mod band;
mod blocks;
mod bootstrap;
mod line;
mod normal;
mod quantile;
mod rank;
mod sample;

pub use adjust::holm;
pub use band::{deviation, sup_t};
pub use blocks::{Block, Blocks, Histogram, Sum};
pub use bootstrap::{BlockBootstrap, percentile_interval};
pub use line::{Line, r_squared, theil_sen, theil_sen_weighted};
pub use normal::{expanded_tail, normal_cdf, t_two_sided_95};
pub use quantile::{median, median_interval, median_ranks, quantile, quantile_unsorted};
pub use rank::{cliffs_delta, hodges_lehmann, least_p, mann_whitney};
pub use sample::Sample;
