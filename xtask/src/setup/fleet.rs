//! Fetches what reads a fleet's figures: Prometheus, unpacked, and DuckDB, polars and pyarrow in a Python of their own.

use super::{apt, kernel};
use crate::command::{Tool, find_program};
use crate::{paths, scratch};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;

/// The package, and its programs that are used.
const PACKAGE: &str = "prometheus";
const PROGRAMS: [&str; 2] = ["prometheus", "promtool"];

/// Python's packages by the names that it imports them under, in versions that were tried together.
const PYTHON: [(&str, &str); 4] = [
    ("duckdb", "duckdb==2.0.1"),
    ("polars", "polars==2.1.0"),
    ("pyarrow", "pyarrow==26.0.1"),
    ("hdrh", "hdrhistogram==0.10.8"),
];

/// Makes the Python.
pub(super) const PYTHON_PACKAGES: &[&str] = &["python3", "python3-venv"];

fn directory() -> PathBuf {
    paths::target().join("fleet")
}

/// `prometheus` or `promtool`.
pub(crate) fn program(name: &str) -> PathBuf {
    directory().join(PACKAGE).join(name)
}

/// The Python that has DuckDB, polars and pyarrow.
pub(crate) fn python() -> PathBuf {
    directory().join("python/bin/python3")
}

/// The packages' names, for people.
pub(crate) fn python_packages() -> String {
    PYTHON.map(|(_, package)| package).join(", ")
}

/// Where they lie, for people.
pub(crate) fn describe() -> (String, String) {
    let shown = |path: PathBuf| path.display().to_string();
    (shown(directory().join(PACKAGE)), shown(directory().join("python")))
}

/// Checks what was unpacked.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_prometheus() -> Result<String, String> {
    kernel::check_directory(&directory().join(PACKAGE))
}

/// Checks that a Python can make another.
///
/// # Errors
/// What is missing.
pub(super) fn check_venv() -> Result<String, String> {
    let python = find_program("python3").ok_or_else(|| "not installed".to_owned())?;
    let ask = "import ensurepip, platform, venv; print('Python', platform.python_version())";
    Tool::new(python).args(["-c", ask]).text().map_err(|_| "python3 has no venv or no pip".to_owned())
}

/// Checks what was installed, by the versions that are asked for.
///
/// # Errors
/// What is wrong with it.
pub(super) fn check_python() -> Result<String, String> {
    let python = python();
    if !python.is_file() {
        return Err("not installed yet".to_owned());
    }
    let imports = PYTHON.map(|(module, _)| module).join(", ");
    let ask = format!(
        "import {imports}; from importlib.metadata import version; \
         print(', '.join(f'{{name}}=={{version(name)}}' for name in ['duckdb', 'polars', 'pyarrow', 'hdrhistogram']))"
    );
    let found = Tool::new(&python).args(["-c", &ask]).text().map_err(|_| "it does not run".to_owned())?;
    if found == python_packages() { Ok(found) } else { Err(format!("{found} is of other versions")) }
}

/// Whether apt's lists name the package.
pub(crate) fn is_listed() -> bool {
    apt::has_candidate(PACKAGE)
}

/// Downloads Prometheus and unpacks its programs in place of whatever was there.
///
/// # Errors
/// When a command fails.
pub(crate) fn fetch_prometheus() -> Result<()> {
    fs::create_dir_all(directory()).with_context(|| format!("cannot create {}", directory().display()))?;
    let partial = scratch::directory(&directory().join("partial"))?;
    apt::download(&[PACKAGE], partial.path())?;
    let root = partial.path().join("root");
    kernel::extract(partial.path(), &root)?;
    let kept = partial.path().join(PACKAGE);
    fs::create_dir_all(&kept)?;
    for name in PROGRAMS {
        let from = root.join("usr/bin").join(name);
        fs::rename(&from, kept.join(name)).with_context(|| format!("the package has no {name}"))?;
    }
    let version = Tool::new(kept.join("prometheus")).arg("--version").text()?;
    let version = version.lines().next().unwrap_or_default().to_owned();
    kernel::write_stamp(&version, &kept, None)?;
    kernel::replace(&kept, &directory().join(PACKAGE))
}

/// Makes the Python and installs the packages in it, in place of whatever was there.
///
/// # Errors
/// When a command fails.
pub(crate) fn make_python() -> Result<()> {
    let python = find_program("python3").context("there is no python3")?;
    let place = directory().join("python");
    Tool::new(python).args(["-m", "venv", "--clear"]).arg(&place).output()?;
    let packages = PYTHON.map(|(_, package)| package);
    Tool::new(self::python())
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"])
        .args(packages)
        .remedy("See that PyPI can be reached, then try again.")
        .output()?;
    ensure!(check_python().is_ok(), "pip ended well, but the packages do not run");
    Ok(())
}
