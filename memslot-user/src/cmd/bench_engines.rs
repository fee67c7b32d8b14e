//! `memslot bench-engines`, hidden: what `cargo xtask bench engines` runs.

use anyhow::Context;
use memslot::bench::{self, Effort, Figure, Pattern, ReplayFigure, SLOTS, Target, Traces};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Fewer and shorter rounds, and a replay of 1 million events
    #[arg(long)]
    quick: bool,
    /// A folder of recordings whose addresses are used
    #[arg(long, value_name = "DIR")]
    recordings: Option<PathBuf>,
    /// Events of the replay; 0, none [default: 10 million]
    #[arg(long, value_name = "N")]
    events: Option<u32>,
    /// Measure the replay and no engine
    #[arg(long)]
    only_replay: bool,
    /// Only measure the replay of this recording, and print the figure as JSON
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "quick", "recordings", "events", "only_replay"])]
    replay: Option<PathBuf>,
}

#[derive(serde::Serialize)]
struct Document<'a> {
    schema: u32,
    recorded_addresses: &'static str,
    engines: &'a [Figure],
    replay: Option<ReplayFigure>,
    targets: &'a [Target],
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(dir) = &self.replay {
            println!("{}", serde_json::to_string(&bench::replay_all(dir)?)?);
            return Ok(ExitCode::SUCCESS);
        }
        let traces = self.recordings.as_deref().map(Traces::read).unwrap_or_default();
        let recorded_addresses = if traces.is_empty() { "synthetic" } else { "recording" };
        let effort = if self.quick { Effort::QUICK } else { Effort::FULL };
        let mut figures = Vec::new();
        for slots in SLOTS.into_iter().filter(|_| !self.only_replay) {
            for pattern in Pattern::ALL {
                figures.extend(bench::measure(&bench::case(slots, pattern, &traces), effort)?);
            }
        }
        let events = self.events.unwrap_or(if self.quick { 1_000_000 } else { 10_000_000 });
        let replay = if events > 0 { Some(replay(events)?) } else { None };
        let targets = bench::targets(&figures, replay.as_ref());
        print!("{}", bench::text(&figures, &targets, replay.as_ref()));
        if traces.is_empty() && !self.only_replay {
            println!("No recordings were given: the recorded addresses are a synthetic trace.");
        }
        if let Some(path) = &self.json {
            let document =
                Document { schema: 1, recorded_addresses, engines: &figures, replay, targets: &targets };
            write(path, &document)?;
        }
        Ok(ExitCode::from(u8::from(!targets.iter().all(|target| target.met))))
    }
}

fn write(path: &Path, document: &Document<'_>) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document).context("the figures cannot be written as JSON")?;
    std::fs::write(path, text + "\n")
        .map_err(|error| anyhow::anyhow!("{} cannot be written: {}", path.display(), error.kind()))
}

/// Replays in a process of its own, whose memory is nothing but the replay's.
fn replay(events: u32) -> anyhow::Result<ReplayFigure> {
    let folder = Folder(std::env::temp_dir().join(format!("memslot-bench-{}", std::process::id())));
    let dir = folder.0.join("recording");
    std::fs::create_dir(&folder.0)
        .map_err(|error| anyhow::anyhow!("{} cannot be made: {}", folder.0.display(), error.kind()))?;
    bench::make_recording(&dir, events)?;
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let output = Command::new(program)
        .arg("bench-engines")
        .arg("--replay")
        .arg(&dir)
        .output()
        .context("the replay could not be started")?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "the replay failed: {}", said.trim());
    serde_json::from_slice(&output.stdout).context("the replay printed no figure")
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
