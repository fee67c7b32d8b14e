//! One file a probe: its entry, its return, and the programs that call them.

mod page_fault;
mod ple;
mod regions;
mod sched;
mod slots;
mod snapshot;
mod translate;
