//! What a folder of results holds, so that only the same comparison is resumed.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// A comparison: boots of another one are no runs of it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) workloads: Vec<String>,
    pub(super) exact: bool,
    /// The first boot before also times the engines of `memslot replay`.
    pub(super) engines_timed: bool,
    /// Size and time of the binary that records.
    pub(super) memslot: String,
    pub(super) before: Subject,
    pub(super) after: Subject,
}

/// What is booted on a side.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subject {
    /// As it was named.
    pub(super) kernel: String,
    /// Its command line, but for what the lab adds.
    pub(super) arguments: Vec<String>,
    /// Sizes and times of the image and of the modules that replace others.
    pub(super) files: Vec<String>,
}

impl Plan {
    /// Takes the folder `out` for this comparison. A side of which nothing was recorded may have changed, for a kernel
    /// that does not boot is mended and tried again.
    ///
    /// # Errors
    /// When the folder holds another comparison or anything else.
    pub(super) fn resume(&self, out: &Path) -> Result<()> {
        let path = out.join("plan.json");
        match fs::read_to_string(&path) {
            Ok(text) => ensure!(
                serde_json::from_str::<Self>(&text).is_ok_and(|known| self.goes_on(&known, out)),
                "{} holds another comparison: of other kernels or workloads, or by another build of memslot; remove it, \
                 or name another folder with --out",
                out.display()
            ),
            Err(_) => {
                let empty = fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_none());
                ensure!(empty, "{} holds something else; name another folder with --out", out.display());
            }
        }
        let text = serde_json::to_string_pretty(self).context("the plan cannot be written as JSON")?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn goes_on<'a>(&'a self, known: &'a Self, out: &Path) -> bool {
        let same = |side: &str, subject: &Subject, known: &Subject| {
            subject == known || super::boots(out, side).is_ok_and(|boots| boots.is_empty())
        };
        let common = |plan: &'a Self| (&plan.workloads, plan.exact, plan.engines_timed, &plan.memslot);
        common(self) == common(known)
            && same("before", &self.before, &known.before)
            && same("after", &self.after, &known.after)
    }
}

/// A file's size and time.
///
/// # Errors
/// When it cannot be looked at.
pub(super) fn identity(file: &Path) -> Result<String> {
    let found = fs::metadata(file).and_then(|found| Ok((found.len(), found.modified()?)));
    let (bytes, time) = found.with_context(|| format!("cannot look at {}", file.display()))?;
    let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(format!("{bytes} bytes of {}", time.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(after: &str) -> Plan {
        let subject = |kernel: &str| Subject {
            kernel: kernel.to_owned(),
            arguments: Vec::new(),
            files: vec!["x".to_owned()],
        };
        Plan {
            workloads: Vec::new(),
            exact: true,
            engines_timed: false,
            memslot: "x".to_owned(),
            before: subject("6.1"),
            after: subject(after),
        }
    }

    #[test]
    fn only_the_same_comparison_is_resumed() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        let refused = |plan: &Plan| plan.resume(out).unwrap_err().to_string();
        plan("6.12").resume(out).unwrap();
        plan("6.12").resume(out).unwrap();
        fs::create_dir(out.join("before-1")).unwrap();
        // Nothing was recorded of the kernel after: another may take its place, and the boots before stay.
        plan("6.12+x").resume(out).unwrap();
        fs::create_dir(out.join("after-1")).unwrap();
        plan("6.12+x").resume(out).unwrap();
        assert!(refused(&plan("6.12")).contains("another comparison"));
        assert!(refused(&Plan { exact: false, ..plan("6.12+x") }).contains("another comparison"));
        assert!(refused(&Plan { memslot: "y".to_owned(), ..plan("6.12+x") }).contains("another comparison"));
        let mut rebuilt = plan("6.12+x");
        rebuilt.after.files = vec!["y".to_owned()];
        assert!(refused(&rebuilt).contains("another comparison"));

        let foreign = tempfile::tempdir().unwrap();
        fs::write(foreign.path().join("letter"), "").unwrap();
        assert!(plan("6.12").resume(foreign.path()).unwrap_err().to_string().contains("something else"));
    }
}
