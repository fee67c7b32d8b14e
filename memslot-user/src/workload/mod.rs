//! Drives KVM and vhost without a guest image, and says beforehand how often each probed kernel
//! function will be called.
//!
//! Each workload has a pure half (layouts, address lists, the forecast of the calls) and a half that
//! performs exactly that: [`slots`] causes page faults, [`ple`] PAUSE exits, [`vhost`] translations.
//! The forecast never looks at a counter of the kernel, so a tracer can be checked against it.

mod error;
mod expectation;
mod host;
mod machine;
mod memory;
pub mod ple;
mod program;
use crate::random;
pub mod slots;
mod thread;
pub mod vhost;

pub use error::WorkloadError;
pub use expectation::{Expectation, Inexact};
pub use host::{Host, Vendor};
pub use thread::name_process;

use std::io;

/// Order in which slots or regions are handed to the kernel; it decides the shape of its trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// By rising address.
    Ascending,
    /// Shuffled by the seed.
    Shuffled,
}

/// What happened while slots or regions changed under look-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Stressed {
    /// Slots changed, or tables exchanged.
    pub changes: u64,
    /// Lists that vCPUs walked, or queues that vhost emptied, meanwhile.
    pub runs: u64,
    /// VMs or devices that came and went.
    pub ended: u64,
}

/// Told when the counted part of a workload begins and ends.
pub trait Observer {
    /// Everything is set up and no probed function has been called: a tool may attach now. The counted
    /// part begins when this returns.
    ///
    /// # Errors
    /// When the announcement cannot be made; the workload is then given up.
    fn ready(&mut self, expected: &Expectation) -> io::Result<()>;

    /// The counted part is over; the VM or device still exists until this returns.
    ///
    /// # Errors
    /// As for [`Observer::ready`].
    fn end(&mut self) -> io::Result<()>;
}
