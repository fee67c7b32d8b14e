//! Statistics of what was measured.

mod sample;

pub use sample::Sample;
