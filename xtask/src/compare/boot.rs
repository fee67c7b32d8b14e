//! One boot of one side, and what is kept of it.

use crate::command::last_lines;
use crate::interrupt::Interrupted;
use crate::lab::{self, Failure, Request};
use crate::run::scenario::Scenario;
use anyhow::{Context, Result};
use std::fs;
use std::io;
use std::path::Path;

/// Lines of a failed boot that are shown.
const SHOWN: usize = 20;

/// What a boot left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Boot {
    /// Every workload's recording.
    Whole,
    /// Recordings, but not of every workload: the kernel lacks something.
    Partial,
    /// Nothing.
    Failed,
}

/// Boots, and keeps the recordings in `folder`. They take their place only when the guest has ended well, so what was
/// interrupted is booted again. What went wrong is shown, and kept in a file beside it.
///
/// # Errors
/// On Ctrl-C, and where not the kernel is at fault but the request or this host.
pub(super) fn boot(name: &str, request: &Request, scenarios: &[&Scenario], folder: &Path) -> Result<Boot> {
    let part = folder.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part).with_context(|| format!("cannot remove {}", part.display()))?;
    }
    let console = folder.with_extension("console");
    let tell = |what: &str, said: &str| -> Result<()> {
        fs::write(&console, said).with_context(|| format!("cannot write {}", console.display()))?;
        eprintln!(
            "xtask: {name}: {what}; its last words, which are kept in {}:\n{}",
            console.display(),
            crate::command::indent(&last_lines(said, SHOWN))
        );
        Ok(())
    };
    let mut request = request.clone();
    request.out = Some(part.clone());
    let outcome = match lab::run(&request, &mut io::stderr()) {
        Ok(outcome) => outcome,
        Err(error) if error.is::<Interrupted>() => return Err(error),
        Err(error) => {
            let Some(failure) = error.downcast_ref::<Failure>() else { return Err(error) };
            let said = format!("{}\n{}\n", failure.summary(), failure.console_end);
            tell("the guest failed, and this kernel is booted no more", &said)?;
            return Ok(Boot::Failed);
        }
    };
    for note in &outcome.notes {
        eprintln!("xtask: {name}: {note}");
    }
    let missing = missing(&part, scenarios)?;
    if missing.is_empty() {
        if console.exists() {
            fs::remove_file(&console).with_context(|| format!("cannot remove {}", console.display()))?;
        }
    } else {
        let said = format!("{}\n{}\n", outcome.output.trim_end(), outcome.notes.join("\n"));
        if missing.len() == scenarios.len() {
            tell("no workload could be recorded, and this kernel is booted no more", &said)?;
            return Ok(Boot::Failed);
        }
        tell(&format!("{} could not be recorded", missing.join(", ")), &said)?;
    }
    fs::rename(&part, folder).with_context(|| format!("cannot rename {}", part.display()))?;
    Ok(if missing.is_empty() { Boot::Whole } else { Boot::Partial })
}

/// The workloads of which there is no whole recording. What there is of them is removed: a recording that was cut off
/// would make all the others incomparable.
fn missing(folder: &Path, scenarios: &[&Scenario]) -> Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for scenario in scenarios {
        let recording = folder.join(scenario.label);
        let meta = fs::read_to_string(recording.join("meta.json")).unwrap_or_default();
        let meta: serde_json::Value = serde_json::from_str(&meta).unwrap_or_default();
        if meta["complete"] != true {
            missing.push(scenario.label);
            if recording.exists() {
                fs::remove_dir_all(&recording)
                    .with_context(|| format!("cannot remove {}", recording.display()))?;
            }
        }
    }
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::scenario::SCENARIOS;

    #[test]
    fn only_whole_recordings_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let chosen: Vec<&Scenario> = SCENARIOS.iter().take(3).collect();
        for (scenario, meta) in chosen.iter().zip([r#"{"complete":true}"#, r#"{"complete":false}"#]) {
            let recording = folder.path().join(scenario.label);
            fs::create_dir(&recording).unwrap();
            fs::write(recording.join("meta.json"), meta).unwrap();
        }
        assert_eq!(missing(folder.path(), &chosen).unwrap(), [chosen[1].label, chosen[2].label]);
        assert!(folder.path().join(chosen[0].label).exists());
        assert!(!folder.path().join(chosen[1].label).exists());
    }
}
