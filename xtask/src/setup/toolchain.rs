//! Finds a Rust toolchain that can build `core` for BPF.

use super::linker;
use crate::command::Tool;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The oldest compiler for the workspace's edition and libraries.
const OLDEST: (u32, u32) = (1, 88);

/// How long rustup may go without a word before it counts as unable to reach its server.
const SILENCE: Duration = Duration::from_secs(60);

/// Where the distribution has its toolchain.
const DISTRIBUTION: &str = "/usr";

/// Packages of the distribution's newer compiler with the standard library's source.
pub(crate) const PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src"];

/// A toolchain that can build for `bpfel-unknown-none`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toolchain {
    /// For people.
    pub(crate) name: String,
    /// Its own Cargo, not rustup's proxy.
    pub(crate) cargo: PathBuf,
    /// Its compiler.
    pub(crate) rustc: PathBuf,
    /// Whether it takes `-Z` options as it is.
    pub(crate) is_nightly: bool,
}

/// The toolchain to use: a rustup nightly with rust-src first, then the distribution's.
///
/// # Errors
/// Why each one that was looked at does not do.
pub(crate) fn find() -> Result<Toolchain, String> {
    let mut reasons = Vec::new();
    for nightly in nightlies() {
        match sysroot(&nightly).and_then(|sysroot| usable(&format!("rustup's {nightly}"), &sysroot)) {
            Ok(toolchain) => return Ok(toolchain),
            Err(reason) => reasons.push(reason),
        }
    }
    match usable("the distribution's", Path::new(DISTRIBUTION)) {
        Ok(toolchain) => return Ok(toolchain),
        Err(reason) => reasons.push(reason),
    }
    Err(reasons.join("; "))
}

/// The command by which rustup gets what is missing, if rustup is there.
pub(crate) fn rustup_command() -> Option<Tool> {
    crate::command::find_program("rustup")?;
    let rustup = Tool::new("rustup").env_remove("RUST_BACKTRACE");
    let tool = match nightlies().first() {
        Some(nightly) => rustup.args(["component", "add", "rust-src", "--toolchain", nightly]),
        None => rustup.args([
            "toolchain",
            "install",
            "nightly",
            "--profile",
            "minimal",
            "--component",
            "rust-src",
        ]),
    };
    Some(tool.silence_limit(SILENCE))
}

/// For looking, which must not download anything.
fn rustup() -> Tool {
    Tool::new("rustup").env("RUSTUP_AUTO_INSTALL", "0")
}

/// The installed nightlies, the undated one first.
fn nightlies() -> Vec<String> {
    let list = rustup().args(["toolchain", "list"]).text().unwrap_or_default();
    nightlies_in(&list)
}

fn nightlies_in(list: &str) -> Vec<String> {
    let mut names: Vec<String> = list
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with("nightly"))
        .map(str::to_owned)
        .collect();
    // A date follows the dash in "nightly-2026-05-20-…"; the newest of those first.
    names.sort_by_key(|name| {
        let dated =
            name.strip_prefix("nightly-").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        (dated, std::cmp::Reverse(name.clone()))
    });
    names
}

fn sysroot(toolchain: &str) -> Result<PathBuf, String> {
    let printed = rustup().args(["run", toolchain, "rustc", "--print", "sysroot"]).text();
    printed.map(PathBuf::from).map_err(|_| format!("rustup's {toolchain} does not run"))
}

fn usable(name: &str, sysroot: &Path) -> Result<Toolchain, String> {
    let (cargo, rustc) = (sysroot.join("bin/cargo"), sysroot.join("bin/rustc"));
    if !rustc.is_file() || !cargo.is_file() {
        return Err(format!("{name} toolchain is not installed"));
    }
    let version = Tool::new(&rustc).arg("-vV").text().map_err(|_| format!("{name} compiler does not run"))?;
    let version =
        Version::parse(&version).ok_or_else(|| format!("{name} compiler does not tell its version"))?;
    version.check(name)?;
    let source = sysroot.join("lib/rustlib/src/rust/library");
    if !source.join("core/src/lib.rs").is_file() || !source.join("Cargo.lock").is_file() {
        return Err(format!("{name} toolchain lacks the standard library's source (rust-src)"));
    }
    let is_nightly = version.release.contains("nightly");
    Ok(Toolchain { name: format!("{name} toolchain, {}", version.release), cargo, rustc, is_nightly })
}

/// From `rustc -vV`.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    release: String,
    number: (u32, u32),
    llvm: u32,
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let release = field("release:")?.to_owned();
        let mut parts = release.split('.');
        let number = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let llvm = field("LLVM version:")?.split('.').next()?.parse().ok()?;
        Some(Self { release, number, llvm })
    }

    fn check(&self, name: &str) -> Result<(), String> {
        if self.number < OLDEST {
            let release = &self.release;
            return Err(format!("{name} compiler is {release}, but {}.{} is needed", OLDEST.0, OLDEST.1));
        }
        // bpf-linker reads the compiler's bitcode, and LLVM reads only what is not newer than itself.
        if self.llvm > linker::LLVM {
            return Err(format!(
                "{name} compiler uses LLVM {}, newer than bpf-linker's {}",
                self.llvm,
                linker::LLVM
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_undated_nightly_comes_first_then_the_newest() {
        let list = "stable-x86_64-unknown-linux-gnu (active, default)\nnightly-2026-01-02-x86_64-unknown-linux-gnu\n\
                    nightly-2026-05-20-x86_64-unknown-linux-gnu\nnightly-x86_64-unknown-linux-gnu\n1.95.0-x86_64\n";
        let expected = ["nightly-x86_64", "nightly-2026-05-20-x86_64", "nightly-2026-01-02-x86_64"];
        let found = nightlies_in(list);
        assert_eq!(found, expected.map(|name| format!("{name}-unknown-linux-gnu")));
    }

    #[test]
    fn a_compiler_that_cannot_work_is_refused_with_the_reason() {
        let version = |release: &str, llvm: &str| {
            Version::parse(&format!("rustc x\nbinary: rustc\nrelease: {release}\nLLVM version: {llvm}\n"))
                .unwrap()
        };
        assert_eq!(version("1.96.0", "22.1.8").check("x"), Ok(()));
        assert_eq!(version("1.97.0-nightly", "22.1.4").check("x"), Ok(()));
        assert!(version("1.63.0", "14.0.6").check("x").unwrap_err().contains("1.88 is needed"));
        assert!(version("1.99.0-nightly", "23.0.0").check("x").unwrap_err().contains("LLVM 23"));
        assert_eq!(Version::parse("rustc 1.96.0"), None);
    }

    #[test]
    fn a_toolchain_without_source_or_compiler_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert!(usable("x", root).unwrap_err().contains("not installed"));
        std::fs::create_dir_all(root.join("bin")).unwrap();
        for program in ["rustc", "cargo"] {
            let script = "#!/bin/sh\nprintf 'release: 1.96.0\\nLLVM version: 22.1.8\\n'\n";
            std::fs::write(root.join("bin").join(program), script).unwrap();
            let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(root.join("bin").join(program), permissions).unwrap();
        }
        assert!(usable("x", root).unwrap_err().contains("rust-src"));
        let library = root.join("lib/rustlib/src/rust/library");
        std::fs::create_dir_all(library.join("core/src")).unwrap();
        std::fs::write(library.join("core/src/lib.rs"), "").unwrap();
        std::fs::write(library.join("Cargo.lock"), "").unwrap();
        let toolchain = usable("x", root).unwrap();
        assert!(!toolchain.is_nightly);
    }
}
