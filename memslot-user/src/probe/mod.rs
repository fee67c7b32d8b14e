//! The kernel side: attaching the probes, reading what they say.

mod attach;
mod btf;
mod counters;
mod decode;
mod filter;
mod histogram;
mod host;
mod identity;
mod kernel_log;
mod kernel_types;
mod object;
mod refusal;
mod report;
mod sched;
mod snapshot;
mod stream;
mod subjects;
mod symbols;
mod sys;
mod target;
mod this_kernel;
mod vm_name;

#[cfg(test)]
mod kernels_tests;

pub use attach::{AttachError, Missed, Options, Preference, Probes};
pub use btf::{Btf, BtfError, Member};
pub use decode::{DecodeError, Record, decode};
pub use filter::Filter;
pub use histogram::{Filled, Histograms, bucket};
pub use host::{clock, host, is_preemptible, kernel_release, module_parameters};
pub use identity::{Event, Resolver};
pub use kernel_log::KernelLog;
pub use kernel_types::{Gaps, KernelTypes, KernelTypesError, settings};
pub use report::{FunctionReport, Status, Verdict};
pub use stream::{Stream, StreamError};
pub use symbols::Symbols;
pub use target::Purpose;
pub use vm_name::of_process as vm_name;
