//! How fast a recording goes through all engines, and in how much memory.

use super::Error;
use crate::engine::EngineId;
use crate::model::Probe;
use crate::recording::Recording;
use crate::replay::synthetic::{self, Shape};
use crate::replay::{self, Options, ProbeReplay};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// One replay.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayFigure {
    /// Events replayed.
    pub events: u64,
    /// Wall time, s.
    pub seconds: f64,
    /// CPU time in user mode, s: what other programs on the machine disturb less.
    pub user_seconds: f64,
    /// The most memory that the process held.
    pub max_rss_bytes: u64,
}

/// Writes a recording of so many faults of a VM with 53 slots.
///
/// # Errors
/// It cannot be written.
pub fn make_recording(dir: &Path, events: u32) -> Result<(), Error> {
    let shape = Shape { faults: events, translations: 0, churn: 100_000, ..Shape::default() };
    Ok(synthetic::write(dir, &shape)?)
}

/// Replays a recording's faults through every engine. The memory is the whole process's, so nothing
/// else should have run in it.
///
/// # Errors
/// The recording cannot be read, or the replay was not sound.
pub fn replay_all(dir: &Path) -> Result<ReplayFigure, Error> {
    let options = Options {
        probes: vec![Probe::PageFault],
        engines: Some(EngineId::ALL.to_vec()),
        ..Options::default()
    };
    let (start, user) = (Instant::now(), user_seconds()?);
    let replays = replay::run(&Recording::open(dir)?, &options, &|_| {})?;
    let (seconds, user_seconds) = (start.elapsed().as_secs_f64(), user_seconds()? - user);
    if replays.is_empty() || !replays.iter().all(ProbeReplay::sound) {
        return Err(Error::Unsound);
    }
    let events = replays.iter().map(|replay| replay.check.events).sum();
    Ok(ReplayFigure { events, seconds, user_seconds, max_rss_bytes: peak_memory()? })
}

/// `VmHWM`: the most memory that this process has held.
fn peak_memory() -> Result<u64, Error> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|_| Error::NoPeak)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or(Error::NoPeak)?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().map_err(|_| Error::NoPeak)?;
    Ok(kib << 10)
}

/// `utime` of this process, which Linux counts in hundredths of a second (`USER_HZ`).
fn user_seconds() -> Result<f64, Error> {
    let stat = std::fs::read_to_string("/proc/self/stat").map_err(|_| Error::NoTime)?;
    // The name in parentheses may hold spaces; behind it the fields begin with the third.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).ok_or(Error::NoTime)?;
    let ticks: u32 =
        fields.split_whitespace().nth(14 - 3).and_then(|field| field.parse().ok()).ok_or(Error::NoTime)?;
    Ok(f64::from(ticks) / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_is_measured() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("recording");
        make_recording(&dir, 3000).unwrap();
        let figure = replay_all(&dir).unwrap();
        assert!(
            figure.events >= 3000 && figure.seconds > 0.0 && figure.max_rss_bytes > 1 << 20,
            "{figure:?}"
        );
    }
}
