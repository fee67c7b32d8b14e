//! memslot measures, on a live KVM host, what memory-slot look-ups, PLE exits and vhost address
//! translations cost, and replays the captured addresses through other data structures.
//!
//! The way of the data: [`probe`] (kernel to events) → [`recording`] → [`replay`] through
//! [`engine`] → [`chart`], [`report`] and [`html`]. [`top`] shows what happens now. [`workload`] causes known numbers of events;
//! [`layouts`] makes layouts without a guest; [`model`] holds the terms that all of them share.

pub mod bench;
pub mod chart;
pub mod compare;
pub mod digest;
pub mod engine;
pub mod experiment;
pub mod export;
pub mod given;
pub mod html;
pub mod layouts;
pub mod model;
pub mod ple;
pub mod probe;
mod random;
pub mod recording;
pub mod replay;
pub mod report;
pub mod serve;
pub mod stats;
pub mod top;
pub mod workload;
