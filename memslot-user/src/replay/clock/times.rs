//! `engines.json`: what a look-up costs in each engine, measured with the clock that the probes used.

use crate::model::Probe;
use crate::recording::{Clock, Meta, Recording};
use crate::replay::{Interval, Prediction};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name of the file in the recording's directory.
pub const FILE: &str = "engines.json";
/// Version of the file's layout; a reader refuses another.
const SCHEMA: u32 = 1;
/// The clock of every recording.
pub(super) const CLOCK: &str = "CLOCK_MONOTONIC";
/// Wall clock and monotonic clock of one boot stay so close, ns: the wall clock may be corrected meanwhile.
const SAME_BOOT: i128 = 10_000_000_000;

/// Why there are no times.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another host, kernel or boot than the recording's.
    #[error(
        "the engines cannot be timed by the recording's clock here: {0}; do it where and when it was recorded, before \
         the next boot"
    )]
    OtherClock(String),
    /// The file is damaged, or of another version.
    #[error("{} cannot be used: {reason}; remove it, or time the engines again with --save-times", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It could not be read or written.
    #[error("cannot {what} {}: {}; check its permissions and that there is room", path.display(), kind)]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        kind: ErrorKind,
    },
    /// The recording cannot be replayed.
    #[error(transparent)]
    Replay(#[from] crate::replay::Error),
}

/// The times of the engines over a recording's own layouts and look-ups.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct EngineTimes {
    /// Version of this layout, 1.
    pub schema: u32,
    /// Version of memslot that measured.
    pub tool: String,
    /// `uname -r` of the kernel that it ran on.
    pub kernel: String,
    /// Name of the clock.
    pub clock: String,
    /// The recording's `start`: which recording it belongs to.
    pub recording: Clock,
    /// Clocks when it was measured.
    pub measured: Clock,
    /// The clock counts instructions: repeated batches took the same time to 2 ns.
    pub exact: bool,
    /// Share of the batches that took what the median of their repeats took, to 2 ns; `exact` from 0.9 on.
    pub identical: f64,
    /// Repeats of each batch.
    pub rounds: u32,
    /// By probe and engine.
    pub engines: Vec<EngineTime>,
}

/// One engine over one probe's look-ups.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct EngineTime {
    /// Which look-ups.
    pub probe: Probe,
    /// The engine's name.
    pub engine: String,
    /// Look-ups that it stands for.
    pub lookups: u64,
    /// Time of one of them, ns, the empty loop's taken off.
    pub mean: Interval,
    /// The same by nodes visited, ascending; of many lengths evenly chosen ones.
    pub by_visited: Vec<LengthTime>,
}

/// Look-ups of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct LengthTime {
    /// Nodes visited.
    pub visited: u32,
    /// Time of a look-up, ns: median of the rounds with its 95 % interval.
    pub ns: Interval,
}

impl EngineTime {
    /// Time of a look-up that visits so many nodes, ns: on straight lines between the lengths that were
    /// measured, and drawn out beyond them. `None` where nothing was measured.
    #[must_use]
    pub fn of_visited(&self, visited: u32) -> Option<Interval> {
        let last = self.by_visited.len().checked_sub(1)?;
        let next = self.by_visited.partition_point(|length| length.visited < visited);
        let high = self.by_visited[next.clamp(last.min(1), last)];
        let low = self.by_visited[next.clamp(last.min(1), last).saturating_sub(1)];
        if high.visited <= low.visited {
            return Some(high.ns);
        }
        let share = (f64::from(visited) - f64::from(low.visited)) / f64::from(high.visited - low.visited);
        let at = |of: fn(&Interval) -> f64| (of(&low.ns) + share * (of(&high.ns) - of(&low.ns))).max(0.0);
        Some(Interval { value: at(|ns| ns.value), low: at(|ns| ns.low), high: at(|ns| ns.high) })
    }
}

/// What the calls would have taken with the engines' times in the place of the kernel's search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct SameClock {
    /// The clock counts instructions.
    pub exact: bool,
    /// Version of memslot that timed the engines.
    pub tool: String,
    /// By engine, as far as it was timed.
    pub engines: Vec<SameClockEngine>,
}

/// One engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct SameClockEngine {
    /// Its name.
    pub engine: String,
    /// Time of one look-up by the recording's clock, ns.
    pub ns_per_lookup: Interval,
    /// Latency predicted, where what the kernel's own search cost is known.
    pub predicted: Option<Prediction>,
}

impl SameClock {
    /// The figures of one engine.
    #[must_use]
    pub fn engine(&self, name: &str) -> Option<&SameClockEngine> {
        self.engines.iter().find(|engine| engine.engine == name)
    }
}

/// Is a clock here and now the one that the recording was made with?
pub(super) fn check_clock(meta: &Meta, kernel: &str, name: &str, now: Clock) -> Result<(), Error> {
    let differs = |what: &str, one: &str, other: &str| {
        Err(Error::OtherClock(format!("the recording is of {what} {one}, and this is {other}")))
    };
    if meta.host.name != name {
        return differs("host", &meta.host.name, name);
    }
    if meta.host.kernel != kernel {
        return differs("Linux", &meta.host.kernel, kernel);
    }
    let boot = |clock: &Clock| i128::from(clock.realtime) - i128::from(clock.monotonic);
    if now.monotonic < meta.end.monotonic.max(meta.start.monotonic)
        || (boot(&now) - boot(&meta.start)).abs() > SAME_BOOT
    {
        return Err(Error::OtherClock("the host has been booted since".to_owned()));
    }
    Ok(())
}

impl EngineTimes {
    pub(super) const SCHEMA: u32 = SCHEMA;

    /// Reads those of a recording; `None` where there are none.
    ///
    /// # Errors
    /// The file cannot be read, or does not belong to the recording.
    pub fn read(recording: &Recording) -> Result<Option<Self>, Error> {
        let path = recording.dir().join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::Io { what: "read", path, kind: error.kind() }),
        };
        let bad = |reason: String| Error::Bad { path: path.clone(), reason };
        let times: Self = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if times.schema != SCHEMA {
            return Err(bad(format!("it has version {}, and this memslot reads {SCHEMA}", times.schema)));
        }
        if times.recording != recording.meta().start || times.clock != CLOCK {
            return Err(bad("it was measured for another recording or by another clock".to_owned()));
        }
        let ascending =
            |engine: &EngineTime| engine.by_visited.is_sorted_by(|one, other| one.visited < other.visited);
        if !times.engines.iter().all(ascending) {
            return Err(bad("its search lengths do not ascend".to_owned()));
        }
        Ok(Some(times))
    }

    /// Writes it into a recording's directory, in place of an older one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, dir: &Path) -> Result<(), Error> {
        let (beside, path) = (dir.join("engines.json.part"), dir.join(FILE));
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::Bad { path: path.clone(), reason: error.to_string() })?;
        let write = || {
            // Of an attempt that was cut off.
            let _ = std::fs::remove_file(&beside);
            let mut file =
                std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
            file.write_all(text.as_bytes())?;
            std::fs::rename(&beside, &path)
        };
        write().map_err(|error: std::io::Error| Error::Io {
            what: "write",
            path: path.clone(),
            kind: error.kind(),
        })
    }
}
