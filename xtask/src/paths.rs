//! Where things lie: the workspace and what `xtask` keeps under its target directory.

use std::env;
use std::path::{Path, PathBuf};

/// The workspace's root directory.
pub(crate) fn workspace() -> PathBuf {
    // Cargo sets the variable for `cargo run`; the compile-time value serves a directly started binary.
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| manifest.clone(), Path::to_path_buf)
}

/// Cargo's target directory, which also holds everything that `xtask` fetches or builds.
pub(crate) fn target() -> PathBuf {
    let root = workspace();
    match env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root.join(directory),
        None => root.join("target"),
    }
}

/// What the lab keeps: kernels, the verdict on KVM, the running guests' files.
pub(crate) fn lab() -> PathBuf {
    target().join("lab")
}

/// Programs that `cargo xtask setup` installs for this workspace only.
pub(crate) fn tools() -> PathBuf {
    target().join("tools")
}
