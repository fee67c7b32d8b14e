//! Tables for people and `summary.json` for machines.

pub mod by;
pub mod summary;
pub mod tables;

#[cfg(test)]
mod tests;
