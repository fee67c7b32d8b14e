//! Fetches perf and bpftrace with the libraries that they need, for the lab's guests; nothing is installed.

use super::{apt, kernel};
use crate::command::Tool;
use crate::{paths, scratch};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// The packages, and the program of each.
const PROGRAMS: [(&str, &str); 2] = [("linux-perf", "perf"), ("bpftrace", "bpftrace")];
/// The dynamic linker, in its package and in a guest.
const LINKER: &str = "ld-linux-x86-64.so.2";

/// Where they lie: `perf`, `bpftrace`, and `lib` with all libraries.
pub(crate) fn directory() -> PathBuf {
    paths::lab().join("peers")
}

/// The packages' names, for people.
pub(crate) fn packages() -> String {
    PROGRAMS.map(|(package, _)| package).join(" and ")
}

/// Checks what was unpacked.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check() -> Result<String, String> {
    kernel::check_directory(&directory())
}

/// Whether apt's lists name the packages.
pub(crate) fn is_listed() -> bool {
    PROGRAMS.iter().all(|(package, _)| apt::has_candidate(package))
}

/// Downloads both with their libraries, and keeps what they load, in place of whatever was there.
///
/// # Errors
/// When a command fails, or a library is missing.
pub(crate) fn fetch() -> Result<()> {
    let partial = scratch::directory(&paths::lab().join("partial"))?;
    let all = apt::with_dependencies(&PROGRAMS.map(|(package, _)| package))?;
    let wanted: Vec<&str> = all.iter().map(String::as_str).filter(|name| is_loaded(name)).collect();
    apt::download(&wanted, partial.path())?;
    let root = partial.path().join("root");
    let mut versions = Vec::new();
    for entry in fs::read_dir(partial.path())? {
        let archive = entry?.path();
        if archive.extension().is_none_or(|extension| extension != "deb") {
            continue;
        }
        Tool::new("dpkg-deb")
            .arg("--extract")
            .args([&archive, &root])
            .remedy("See that the disk has room (1 GB), then try again.")
            .output()?;
        let name = archive.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if PROGRAMS.iter().any(|(package, _)| name.starts_with(&format!("{package}_"))) {
            versions.push(name);
        }
    }
    versions.sort();
    let kept = partial.path().join("peers");
    fs::create_dir_all(kept.join("lib"))?;
    for (_, program) in PROGRAMS {
        keep(&root, program, &kept)?;
    }
    kernel::write_stamp(&versions.join(", "), &kept, Some(&kept.join(PROGRAMS[0].1)))?;
    kernel::replace(&kept, &directory())
}

/// Libraries and the two themselves: of what else they depend on (Python's and Perl's programs) they load nothing.
fn is_loaded(package: &str) -> bool {
    package.starts_with("lib") || package == "zlib1g" || PROGRAMS.iter().any(|(name, _)| *name == package)
}

/// Copies a program and what it loads out of `root`.
fn keep(root: &Path, program: &str, kept: &Path) -> Result<()> {
    let libraries = ["lib", "usr/lib"].map(|parent| root.join(parent).join("x86_64-linux-gnu"));
    let linker = libraries[0].join(LINKER);
    let binary = root.join("usr/bin").join(program);
    let search = libraries.each_ref().map(|path| path.to_string_lossy()).join(":");
    let list = Tool::new(&linker).args(["--library-path", &search, "--list"]).arg(&binary).text()?;
    let copy = |from: &Path, to: PathBuf| {
        fs::copy(from, &to)
            .map(drop)
            .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
    };
    copy(&binary, kept.join(program))?;
    copy(&linker, kept.join("lib").join(LINKER))?;
    for (name, path) in loaded(&list) {
        // The linker would take the host's own, if a package did not bring it.
        ensure!(
            path.starts_with(root),
            "{program} needs {name}, which is in none of the packages that it depends on"
        );
        copy(&path, kept.join("lib").join(name))?;
    }
    Ok(())
}

/// Name and path of each library in what the dynamic linker lists: `\tNAME => PATH (ADDRESS)`.
fn loaded(list: &str) -> Vec<(&str, PathBuf)> {
    list.lines()
        .filter_map(|line| {
            let (name, path) = line.trim().split_once(" => ")?;
            let path = path.rsplit_once(" (").map_or(path, |(path, _)| path);
            // The linker itself stands there by the path that programs name it by.
            (!name.contains('/')).then(|| (name, PathBuf::from(path)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkers_list_is_read() {
        let list = "\tlinux-vdso.so.1 (0x00007ff479eb1000)\n\tlibz.so.1 => /r/lib/libz.so.1 (0x00007ff4)\n\t\
                    libx.so => not found\n\t/lib64/ld-linux-x86-64.so.2 => /r/lib/ld-linux-x86-64.so.2 (0x7)";
        assert_eq!(
            loaded(list),
            [("libz.so.1", PathBuf::from("/r/lib/libz.so.1")), ("libx.so", PathBuf::from("not found"))]
        );
    }

    #[test]
    fn libraries_are_taken_and_interpreters_are_not() {
        for package in ["libc6", "zlib1g", "bpftrace", "linux-perf"] {
            assert!(is_loaded(package), "{package}");
        }
        for package in ["perl", "python3.11-minimal", "bpftrace-x", "dpkg"] {
            assert!(!is_loaded(package), "{package}");
        }
    }
}
