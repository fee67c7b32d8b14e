//! Recordings: a directory of Arrow IPC streams and `meta.json`.
//!
//! `docs/recording-format.md` says what the files hold; [`tables`] is the one place that defines
//! their columns.

mod account;
mod batches;
mod cell;
mod error;
mod figures;
mod frame;
mod meta;
mod pass;
mod reader;
mod row;
mod tables;
mod writer;

pub use account::Account;
pub use batches::{Batches, TableName};
pub use error::Error;
pub use meta::{AttachKind, Attached, Clock, DeviceMeta, Host, Meta, ProbeMeta, SCHEMA, TableMeta, VmMeta};
pub(crate) use pass::Pass;
pub use reader::{Recording, Rows, Truncated};
pub use row::Stored;
pub use writer::{Options, Writer};

/// Name of the file that says where a recording comes from.
pub const META_FILE: &str = "meta.json";

#[cfg(test)]
mod tests;
