//! Builds C modules for the lab's kernels: patched ones of the distribution, and our own.

pub(crate) mod cli;
mod make;
mod own;
mod patched;
mod tree;

pub(crate) use own::{Own, build};
