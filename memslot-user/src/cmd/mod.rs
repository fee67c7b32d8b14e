//! One file a subcommand.

pub(crate) mod bench_engines;
pub(crate) mod bench_reader;
pub(crate) mod chart;
pub(crate) mod compare;
pub(crate) mod digests;
pub(crate) mod doctor;
pub(crate) mod engines;
pub(crate) mod experiment;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod given;
pub(crate) mod output;
pub(crate) mod paint;
pub(crate) mod ple;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod summary;
pub(crate) mod top;
mod values;
pub(crate) mod workload;
