//! Predictions put to the test: the search of a running kernel is exchanged by a livepatch, and what it then
//! takes is held against what was predicted from a recording of the stock kernel alone.
//!
//! [`calibration`] measures, in the guest and on known inputs, what the module's own searches take, and
//! [`costs`] makes of it the instructions of a search as a sum over its way. [`predict`] takes the stock
//! kernel's recording and those costs, and nothing else; [`observed`] reads what the other engines really took.
//! [`outcome`] puts the two side by side.

pub mod calibration;
pub mod costs;
pub mod observed;
pub mod outcome;
pub mod predict;
mod setup;
mod text;

pub use setup::{Error, Module, Setup};
pub use text::text;

/// Engines that the modules have, in the order of every table; `stock` is the kernel's own search.
pub const ENGINES: [&str; 7] =
    ["stock", "linear", "linear_by_size", "sorted_array", "sorted_array_kernel", "wbtree", "eytzinger"];
