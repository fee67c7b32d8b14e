//! `memslot top`: what happens now, by VM, vCPU or queue.
//!
//! A [`Source`] says what came within each interval: [`Live`] from the probes' maps and their sample of
//! events, [`Replay`] from a recording. [`App`] keeps it and answers keys, [`view`] draws it, [`json`] and
//! [`text`] print it. Only [`screen`] knows of a terminal.

mod app;
mod bins;
mod figures;
pub mod json;
mod live;
mod replay;
mod rows;
pub mod screen;
mod source;
pub mod text;
pub mod view;

#[cfg(test)]
mod tests;

pub use app::{Answer, App};
pub use figures::{Figures, Key, Subject};
pub use live::{Live, Settings};
pub use replay::Replay;
pub use rows::{By, Row, Sort, rows};
pub use source::{Error, Polled, Source, Tick};
