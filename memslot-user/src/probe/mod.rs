//! The kernel side: attaching the probes, reading what they say.

mod attach;
mod btf;
mod counters;
mod decode;
mod host;
mod identity;
mod kernel_log;
mod kernel_types;
mod object;
mod refusal;
mod report;
mod snapshot;
mod stream;
mod symbols;
mod sys;
mod target;
mod this_kernel;
mod vm_name;

#[cfg(test)]
mod kernels_tests;

pub use attach::{AttachError, Options, Preference, Probes};
pub use btf::{Btf, BtfError, Member};
pub use decode::{DecodeError, Record, decode};
pub use host::{clock, host, kernel_release, module_parameters};
pub use identity::{Event, Resolver};
pub use kernel_log::KernelLog;
pub use kernel_types::{Gaps, KernelTypes, KernelTypesError, settings};
pub use report::{FunctionReport, Status, Verdict};
pub use stream::{Stream, StreamError};
pub use symbols::Symbols;
pub use target::Purpose;
