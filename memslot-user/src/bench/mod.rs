//! How long a look-up takes in each engine: for the criterion benches and `cargo xtask bench engines`.
//!
//! Everything is measured in one run: the engines take turns in a new order every round, so that a
//! change of the machine's speed meets all of them, and a ratio is taken within its round.

mod cases;
mod measure;
mod replay;
mod targets;
mod text;

pub use cases::{Case, Pattern, SLOTS, Traces, case};
pub use measure::{Contender, Effort, Figure, Interval, Intervals, Timed, contenders, measure};
pub use replay::{ReplayFigure, make_recording, replay_all};
pub use targets::{Target, targets};
pub use text::text;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A generated layout was refused: a defect.
    #[error("a generated layout cannot be built: {0}")]
    Build(#[from] crate::engine::BuildError),
    /// The recording cannot be read or written.
    #[error(transparent)]
    Recording(#[from] crate::recording::Error),
    /// The replay failed.
    #[error(transparent)]
    Replay(#[from] crate::replay::Error),
    /// The replay answered wrongly, or left events out.
    #[error("the replay of the synthetic recording is not sound; run the tests of the replay")]
    Unsound,
    /// An engine found something else than the others.
    #[error("{engine} answers otherwise than partition_point at {slots} slots; run the engines' tests")]
    Wrong {
        /// Which.
        engine: &'static str,
        /// Where.
        slots: u32,
    },
    /// The kernel does not say how much memory was used.
    #[error("/proc/self/status has no VmHWM line: is /proc mounted?")]
    NoPeak,
    /// The kernel does not say how much CPU time was used.
    #[error("/proc/self/stat has no user time: is /proc mounted?")]
    NoTime,
}
