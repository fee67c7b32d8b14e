//! `cargo xtask bench`: how fast the tool's own parts are.

use crate::{build, command::Tool, paths, progress};
use anyhow::{Context, Result};
use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Measure the tool itself
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// ns a look-up in each engine as ratios measured in one run, and a replay of 10 million events
    ///
    /// Uses the addresses of the recordings that `cargo xtask run` left, else a synthetic trace. Exits with 1 if a
    /// target is missed.
    Engines {
        /// Write the figures to this file
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Fewer and shorter rounds, and a replay of 1 million events
        #[arg(long)]
        quick: bool,
        /// Events of the replay; 100 million take about 3 GB in the folder for temporary files [default: 10 million]
        #[arg(long, value_name = "N")]
        events: Option<u32>,
        /// Measure the replay and no engine
        #[arg(long)]
        only_replay: bool,
    },
}

impl Args {
    /// Builds for speed and measures.
    ///
    /// # Errors
    /// When the build or the measurement fails.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let What::Engines { json, quick, events, only_replay } = self.what;
        let memslot = build::plain_binary()?;
        let recordings = paths::target().join("run/recording");
        let here = env::current_dir().context("the working directory is gone")?;
        let json = json.map(|json| here.join(json));
        let mut command =
            engines(&memslot, json.as_deref(), quick, recordings.is_dir().then_some(&*recordings));
        if let Some(events) = events {
            command = command.arg("--events").arg(events.to_string());
        }
        if only_replay {
            command = command.arg("--only-replay");
        }
        let code = progress::step("measuring the engines", || command.exit_code())?;
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(2)))
    }
}

fn engines(memslot: &Path, json: Option<&Path>, quick: bool, recordings: Option<&Path>) -> Tool {
    let mut command = Tool::new(memslot).arg("bench-engines");
    if let Some(json) = json {
        command = command.arg("--json").arg(json);
    }
    if let Some(recordings) = recordings {
        command = command.arg("--recordings").arg(recordings);
    }
    if quick { command.arg("--quick") } else { command }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurement_gets_what_was_asked_for() {
        let line = |json: Option<&str>, quick, recordings: Option<&str>| {
            engines(Path::new("/m"), json.map(Path::new), quick, recordings.map(Path::new)).command_line()
        };
        assert_eq!(line(None, false, None), "/m bench-engines");
        assert_eq!(
            line(Some("/j.json"), true, Some("/r")),
            "/m bench-engines --json /j.json --recordings /r --quick"
        );
    }
}
