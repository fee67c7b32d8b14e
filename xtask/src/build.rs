//! Builds the eBPF object and the static binary that carries it.

use crate::command::Tool;
use crate::setup::{self, Toolchain};
use crate::{paths, progress};
use anyhow::{Result, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Build `memslot` as one static binary with the probes inside, and print its path
///
/// It runs on any x86-64 Linux host without Rust: copy it there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

impl Args {
    /// Sets up and builds.
    ///
    /// # Errors
    /// What failed.
    pub(crate) fn run(self) -> Result<ExitCode> {
        setup::ensure()?;
        println!("{}", static_binary(&probes()?)?.display());
        Ok(ExitCode::SUCCESS)
    }
}

const BPF_TARGET: &str = "bpfel-unknown-none";
const HOST_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Separates the flags in `CARGO_ENCODED_RUSTFLAGS`, so that paths may contain spaces.
const FLAG_SEPARATOR: &str = "\u{1f}";

/// Variables of Cargo and its kin that say how to reach the network or look, not what to build.
const KEPT: [&str; 5] = ["CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTR", "CARGO_TERM_"];

/// Builds the probes; the path is that of the BPF object.
///
/// # Errors
/// When there is no toolchain or linker for BPF (`cargo xtask setup` gets them) or the build fails.
pub(crate) fn probes() -> Result<PathBuf> {
    let toolchain = setup::toolchain()?;
    let linker = setup::linker()?;
    let target = paths::target().join("bpf");
    progress::step("building the probes", || probes_command(&toolchain, &linker, &target).run())?;
    built(target.join(BPF_TARGET).join("release/memslot-ebpf"))
}

/// Builds `memslot` as a static binary with the probes in it.
///
/// # Errors
/// When the build fails.
pub(crate) fn static_binary(probes: &Path) -> Result<PathBuf> {
    let target = paths::target();
    progress::step("building memslot", || binary_command(probes, &target).run())?;
    built(target.join(HOST_TARGET).join("release/memslot"))
}

/// Builds `memslot` for this host alone, without the probes: all that does not record.
///
/// # Errors
/// When the build fails.
pub(crate) fn plain_binary() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = paths::target();
    let command = clean(Tool::new(cargo), std::env::vars_os().map(|(name, _)| name))
        .args([
            "build",
            "--release",
            "--quiet",
            "--package",
            "memslot-user",
            "--bin",
            "memslot",
            "--target-dir",
        ])
        .arg(&target)
        .directory(paths::workspace());
    progress::step("building memslot", || command.run())?;
    built(target.join("release/memslot"))
}

fn probes_command(toolchain: &Toolchain, linker: &Path, target: &Path) -> Tool {
    let mut linker_flag = OsString::from("-Clinker=");
    linker_flag.push(linker);
    let flags = ["-Cdebuginfo=2".into(), "-Clink-arg=--btf".into(), linker_flag];
    let mut tool = clean(Tool::new(&toolchain.cargo), std::env::vars_os().map(|(name, _)| name))
        .env("RUSTC", &toolchain.rustc)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join(FLAG_SEPARATOR.as_ref()));
    if !toolchain.is_nightly {
        // A released compiler takes -Z options only so; the standard library's source is its own.
        tool = tool.env("RUSTC_BOOTSTRAP", "1");
    }
    tool.args(["build", "--release", "--quiet", "--target", BPF_TARGET, "-Z", "build-std=core"])
        .arg("--target-dir")
        .arg(target)
        .directory(paths::workspace().join("memslot-ebpf"))
        .remedy("If the error is not in the probes, run `cargo xtask setup`.")
}

fn binary_command(probes: &Path, target: &Path) -> Tool {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    clean(Tool::new(cargo), std::env::vars_os().map(|(name, _)| name))
        .env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .env("MEMSLOT_EBPF_OBJECT", probes)
        // The target is named so that the flags stay off build scripts and procedural macros.
        .args(["build", "--release", "--quiet", "--package", "memslot-user", "--bin", "memslot"])
        .args(["--target", HOST_TARGET, "--target-dir"])
        .arg(target)
        .directory(paths::workspace())
}

/// Removes what the outer Cargo or the user's shell would impose on an inner build.
///
/// `RUSTUP_TOOLCHAIN` stays: without it rustup's `rustc` would obey the `rust-toolchain` files of dependencies.
pub(crate) fn clean(mut tool: Tool, names: impl Iterator<Item = OsString>) -> Tool {
    for name in names.filter_map(|name| name.into_string().ok()) {
        let foreign = ["CARGO", "RUSTC", "RUSTFLAGS", "RUSTDOC", "MEMSLOT_EBPF_OBJECT"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        if foreign && !KEPT.iter().any(|prefix| name.starts_with(prefix)) {
            tool = tool.env_remove(&name);
        }
    }
    tool
}

fn built(path: PathBuf) -> Result<PathBuf> {
    ensure!(path.is_file(), "the build ended well but left no {}", path.display());
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolchain(is_nightly: bool) -> Toolchain {
        Toolchain {
            name: "test".into(),
            cargo: "/t/bin/cargo".into(),
            rustc: "/t/bin/rustc".into(),
            is_nightly,
        }
    }

    #[test]
    fn the_probes_are_built_by_the_toolchain_that_was_found() {
        let line = |is_nightly| {
            probes_command(&toolchain(is_nightly), Path::new("/l/bpf linker"), Path::new("/x")).command_line()
        };
        assert_eq!(
            line(false),
            "RUSTC=/t/bin/rustc CARGO_ENCODED_RUSTFLAGS='-Cdebuginfo=2\u{1f}-Clink-arg=--btf\u{1f}-Clinker=/l/bpf \
             linker' RUSTC_BOOTSTRAP=1 /t/bin/cargo build --release --quiet --target bpfel-unknown-none -Z \
             build-std=core --target-dir /x"
        );
        assert!(!line(true).contains("RUSTC_BOOTSTRAP"));
    }

    #[test]
    fn inherited_variables_do_not_reach_an_inner_build() {
        let names =
            ["CARGO", "CARGO_PKG_NAME", "RUSTFLAGS", "RUSTC_WRAPPER", "RUSTUP_TOOLCHAIN", "CARGO_HOME"];
        let script = names.map(|name| format!("${{{name}-unset}}")).join(" ");
        let mut tool = Tool::new("sh").arg("-c").arg(format!("echo {script}"));
        for name in names {
            tool = tool.env(name, "inherited");
        }
        let printed = clean(tool, names.into_iter().map(OsString::from)).text().unwrap();
        assert_eq!(printed, "unset unset unset unset inherited inherited");
    }
}
