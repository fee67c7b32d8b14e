//! Tables for people and `summary.json` for machines.

pub mod summary;
pub mod tables;

#[cfg(test)]
mod tests;
