//! Runs the kernel's own build of modules outside its tree, and takes what comes of it.

use crate::command::{Tool, last_lines};
use crate::lab::Series;
use crate::{progress, setup};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Lines of the compiler's complaints that are repeated.
const REPORTED_LINES: usize = 40;

/// The headers' directory in which make runs, below where the packages are unpacked.
///
/// # Errors
/// When it is not there.
pub(super) fn build_directory(unpacked: &Path) -> Result<PathBuf> {
    subdirectory(&unpacked.join("usr/src"), |name| {
        name.starts_with("linux-headers-") && !name.ends_with("-common")
    })
}

/// The directory of the common headers: the kernel's source tree, as far as it is there.
///
/// # Errors
/// When it is not there.
pub(super) fn source_tree(unpacked: &Path) -> Result<PathBuf> {
    subdirectory(&unpacked.join("usr/src"), |name| {
        name.starts_with("linux-headers-") && name.ends_with("-common")
    })
}

fn subdirectory(parent: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries = fs::read_dir(parent).with_context(|| format!("cannot read {}", parent.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() && path.file_name().and_then(|name| name.to_str()).is_some_and(&wanted) {
            return Ok(path);
        }
    }
    bail!("{} does not hold a kernel's headers; remove it and try again", parent.display())
}

/// Builds the modules of `directory` against the headers in `build`, with BTF.
///
/// # Errors
/// What the compiler complained of.
pub(super) fn modules(what: &str, build: &Path, directory: &Path) -> Result<()> {
    let path = directory.display().to_string();
    ensure!(
        !path.contains([' ', ':']),
        "the kernel's build takes no spaces and no colons in {path}; set CARGO_TARGET_DIR to another place"
    );
    let mut command = Tool::new("make")
        .args(["--silent", "--jobs", &jobs(), "--directory"])
        .arg(build)
        .arg(format!("M={path}"))
        // Not every version of the build tools has resolve_btfids; it fills in tables of BPF kernel functions, which
        // no module here has.
        .arg(format!(
            "RESOLVE_BTFIDS={}",
            if has_resolver(build) { "$(objtree)/tools/bpf/resolve_btfids/resolve_btfids" } else { "true" }
        ))
        .arg("modules");
    for variable in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT", "CFLAGS"] {
        command = command.env_remove(variable);
    }
    let (code, output, complaints) = progress::step(&format!("building {what}"), || command.answer())?;
    if code != 0 {
        let said = if complaints.is_empty() { output } else { complaints };
        bail!(
            "{what} cannot be built; `{}` says:\n{}",
            command.command_line(),
            last_lines(&said, REPORTED_LINES)
        );
    }
    Ok(())
}

fn has_resolver(build: &Path) -> bool {
    build.join("tools/bpf/resolve_btfids/resolve_btfids").is_file()
}

fn jobs() -> String {
    std::thread::available_parallelism().map_or(1, usize::from).to_string()
}

/// Copies a built module to `out`, without its debug information; its BTF stays.
///
/// # Errors
/// When it was built without BTF, or cannot be copied.
pub(super) fn take(module: &Path, out: &Path) -> Result<PathBuf> {
    let name = module.file_name().with_context(|| format!("{} has no name", module.display()))?;
    let to = out.join(name);
    Tool::new("strip").arg("--strip-debug").arg("-o").args([&to, &module.to_owned()]).output()?;
    let sections = Tool::new("readelf").args(["--section-headers", "--wide"]).arg(&to).text()?;
    let has = |section: &str| sections.split_whitespace().any(|word| word == section);
    ensure!(has(".BTF"), "{} was built without BTF; is pahole in order?", module.display());
    // See RESOLVE_BTFIDS above.
    ensure!(
        !has(".BTF_ids"),
        "{} has tables of BPF kernel functions, which the build tools of this kernel cannot fill in",
        module.display()
    );
    Ok(to)
}

/// What a build depends on besides its sources: packages and compiler.
///
/// # Errors
/// When the compiler does not run.
pub(super) fn environment(series: Series) -> Result<String> {
    let build = build_directory(&setup::headers_directory(series))?;
    let compiler = Tool::new("gcc-12").arg("--version").text()?;
    let pahole = Tool::new("pahole").arg("--version").text()?;
    let version = fs::read_to_string(setup::headers_directory(series).join("version"))
        .context("the headers do not say their version; run `cargo xtask setup`")?;
    Ok(format!(
        "{} {version}\n{}\npahole {pahole}\n",
        build.file_name().unwrap_or_default().to_string_lossy(),
        compiler.lines().next().unwrap_or_default()
    ))
}
