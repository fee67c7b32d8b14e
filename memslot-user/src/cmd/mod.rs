//! One file a subcommand.

pub(crate) mod bench_engines;
pub(crate) mod bench_reader;
pub(crate) mod chart;
pub(crate) mod compare;
pub(crate) mod digests;
pub(crate) mod doctor;
pub(crate) mod engines;
pub(crate) mod given;
mod output;
pub(crate) mod ple;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod summary;
pub(crate) mod top;
pub(crate) mod workload;
