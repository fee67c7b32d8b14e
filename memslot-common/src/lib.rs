//! What the probes in the kernel and the tool in user space say to each other.
//!
//! Everything here is `no_std`, without dependencies and without `unsafe`: records are plain
//! `repr(C)` structures without padding, and the user side reads them from bytes field by field.
#![no_std]
#![forbid(unsafe_code)]

#[macro_use]
mod record;
pub mod account;
pub mod event;
pub mod histogram;
pub mod settings;
