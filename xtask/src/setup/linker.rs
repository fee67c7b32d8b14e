//! The pinned bpf-linker, installed for this workspace only.

use crate::build;
use crate::command::Tool;
use crate::paths;
use std::path::PathBuf;

/// The version that the probes are linked by.
const VERSION: &str = "0.13.0";

/// The major version of the LLVM that it is built on.
pub(crate) const LLVM: u32 = 22;

/// Where the distribution has that LLVM.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";

/// What building it takes; its libraries are also what it runs on.
pub(crate) const PACKAGES: &[&str] = &["llvm-22-dev"];

fn path() -> PathBuf {
    paths::tools().join("bin/bpf-linker")
}

/// The linker, if it is there, runs and has the right version.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn find() -> Result<PathBuf, String> {
    let path = path();
    if !path.is_file() {
        return Err("not built yet".to_owned());
    }
    let printed = Tool::new(&path).arg("--version").text().map_err(|_| "it does not run".to_owned())?;
    if printed.split_whitespace().any(|word| word == VERSION) {
        Ok(path)
    } else {
        Err(format!("it is {printed}, not {VERSION}"))
    }
}

/// LLVM's development files, needed only while there is no linker.
///
/// # Errors
/// That they are missing.
pub(crate) fn find_llvm() -> Result<String, String> {
    if find().is_ok() {
        return Ok("not needed, for bpf-linker is built".to_owned());
    }
    let config = PathBuf::from(LLVM_PREFIX).join("bin/llvm-config");
    Tool::new(&config).arg("--version").text().map_err(|_| format!("{} does not run", config.display()))
}

/// Builds and installs it.
pub(crate) fn install_command() -> Tool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    build::clean(Tool::new(cargo), std::env::vars_os().map(|(name, _)| name))
        .env("LLVM_PREFIX", LLVM_PREFIX)
        .args(["install", "bpf-linker", "--version", VERSION, "--locked", "--no-default-features"])
        .args(["--features", "llvm-22", "--force", "--root"])
        .arg(paths::tools())
        .remedy("It needs crates.io; what is there already is kept, so run `cargo xtask setup` again.")
}
