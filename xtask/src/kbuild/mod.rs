//! Builds C modules for the lab's kernels: patched ones of the distribution, and our own.

pub(crate) mod livepatch;
mod make;
pub(crate) mod module;
mod own;
mod patched;
mod tree;

pub(crate) use module::series;
pub(crate) use own::{Own, build};
