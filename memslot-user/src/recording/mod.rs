//! Recordings: a directory of Arrow IPC streams and `meta.json`.

mod meta;

pub use meta::{
    Account, AttachKind, Attached, Clock, DeviceMeta, Host, Meta, ProbeMeta, SCHEMA, TableMeta, VmMeta,
};
