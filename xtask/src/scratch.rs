//! Directories that go with the process that made them, at the latest when the next one looks.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use tempfile::{Builder, TempDir};

/// A new directory in `parent`, named after this process. Those of processes that were killed are removed.
///
/// # Errors
/// When `parent` cannot be used.
pub(crate) fn directory(parent: &Path) -> Result<TempDir> {
    let context = || format!("cannot use the directory {}", parent.display());
    fs::create_dir_all(parent).with_context(context)?;
    for entry in fs::read_dir(parent).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let owner = name.split('-').next().and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Another process may be removing it too.
            let _ = fs::remove_dir_all(&path);
        }
    }
    Builder::new().prefix(&format!("{}-", std::process::id())).tempdir_in(parent).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_goes_with_the_next_run() {
        let parent = tempfile::tempdir().unwrap();
        // Process numbers end at 2^22.
        fs::create_dir_all(parent.path().join("4194305-x/deep")).unwrap();
        let living = directory(parent.path()).unwrap();
        let mine = directory(parent.path()).unwrap();
        assert!(!parent.path().join("4194305-x").exists());
        assert!(living.path().is_dir() && mine.path().is_dir());
        drop((living, mine));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
