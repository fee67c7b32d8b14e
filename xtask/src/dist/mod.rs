//! `cargo xtask dist`: what users install.

pub(crate) mod package;
mod tree;

pub(crate) use tree::UNIT;

use crate::command::Tool;
use crate::{build, paths, progress, setup};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Build the packages: a .deb, and a .tar.gz of the same files
///
/// Both hold the static binary with the probes inside, man pages, completions, schemas, dashboard, alert rules and a
/// systemd unit. Neither needs Rust, or anything else, where it is installed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the packages go
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Args {
    /// Builds and packs.
    ///
    /// # Errors
    /// What failed.
    pub(crate) fn run(self) -> Result<ExitCode> {
        setup::ensure()?;
        let memslot = build::static_binary(&build::probes()?)?;
        let out = self.out.unwrap_or_else(|| paths::target().join("dist"));
        for path in build_all(&memslot, &out)? {
            println!("{}", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Packs `memslot` into `out`; the packages, and their checksums.
///
/// # Errors
/// What failed.
pub(crate) fn build_all(memslot: &Path, out: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let root = tempfile::tempdir_in(out).context("no room for the packages' files")?;
    let version = version(memslot)?;
    progress::step("collecting what belongs to a package", || tree::fill(root.path(), memslot))?;
    let deb = package::deb(root.path(), &version, out)?;
    let archive = package::archive(root.path(), &version, out)?;
    let names = [&deb, &archive].map(|path| path.file_name().unwrap_or_default().to_owned());
    let sums = Tool::new("sha256sum").arg("--").args(&names).directory(out).text()?;
    let list = out.join("SHA256SUMS");
    fs::write(&list, sums + "\n").with_context(|| format!("cannot write {}", list.display()))?;
    Ok(vec![deb, archive, list])
}

/// Version and revision as package versions are written: `0.1.0+gitREVISION`.
fn version(memslot: &Path) -> Result<String> {
    let said = Tool::new(memslot).arg("--version").text()?;
    let words: Vec<&str> = said.split_whitespace().collect();
    let number = words.get(1).context("memslot does not say its version")?;
    let revision = words.get(2).map(|word| word.trim_matches(['(', ')']));
    Ok(revision.map_or_else(|| (*number).to_owned(), |revision| format!("{number}+git{revision}")))
}
