//! One file a subcommand.

pub(crate) mod chart;
pub(crate) mod doctor;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod workload;
