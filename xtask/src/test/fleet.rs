//! What other tools make of memslot's figures: DuckDB, polars and pyarrow of exports, Prometheus of what is served.

use super::{cargo, lab_tests};
use crate::command::{Tool, find_program};
use crate::lab::{Accelerator, KernelChoice, Request, Series};
use crate::{dist, paths, setup};
use anyhow::{Context, Result, anyhow};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const IN_THE_LAB: &str = include_str!("fleet.sh");
const READERS: &str = include_str!("fleet.py");

fn folder(kernel: &KernelChoice) -> PathBuf {
    paths::target().join("test/fleet").join(kernel.to_string())
}

/// What limits a process to some capabilities, from util-linux, which every Debian has.
const LIMITER: &str = "setpriv";

/// Runs the script in the guest, with the capabilities that the unit leaves to `serve`.
fn in_the_lab(kernel: &KernelChoice, memslot: &Path, folder: PathBuf) -> Result<()> {
    let unit = dist::UNIT.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = unit.context("the unit bounds no capabilities")?.to_lowercase();
    let names = names.split_whitespace().map(|name| name.replacen("cap_", "+", 1));
    let set: Vec<String> = ["-all".to_owned()].into_iter().chain(names).collect();
    let script = IN_THE_LAB.replace("@CAPABILITIES@", &set.join(","));
    let limiter =
        find_program(LIMITER).with_context(|| format!("there is no {LIMITER}; install util-linux"))?;
    let mut request = Request::new(kernel.clone(), ["sh", "-c", &script].map(str::to_owned).to_vec());
    request.accelerator = Accelerator::Tcg;
    request.time_limit = Duration::from_secs(1800);
    request.memslot = Some(memslot.to_owned());
    request.files = libraries(&limiter)?;
    request.files.push(limiter);
    request.out = Some(folder);
    lab_tests::in_guest(&request)
}

/// The dynamic linker and the libraries that a program of this host loads.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let list = Tool::new("ldd").arg(program).text()?;
    // `NAME => PATH (ADDRESS)`, and `PATH (ADDRESS)` of the linker.
    let path = |line: &str| -> Option<PathBuf> {
        let place = line.rsplit(" => ").next()?.split(" (").next()?.trim();
        place.starts_with('/').then(|| PathBuf::from(place))
    };
    Ok(list.lines().filter_map(path).collect())
}

/// Records and serves in the lab, on both kernels, and lets the readers have what came of it.
pub(super) fn run(memslot: &Path) -> Result<()> {
    setup::ensure_fleet()?;
    lab_tests::on_both(|kernel| {
        let folder = folder(&kernel);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        in_the_lab(&kernel, memslot, folder)
    })?;
    for series in [Series::V6_1, Series::V6_12] {
        let folder = folder(&KernelChoice::Series(series));
        cargo()
            .env("MEMSLOT_LAB", &folder)
            .args(["test", "--package", "memslot-user", "--locked", "--quiet", "--test", "schema"])
            .args(["--", "--ignored"])
            .run()
            .map_err(|error| anyhow!("{}: {error:#}", series.name()))?;
    }
    let script = paths::target().join("test/fleet/fleet.py");
    fs::write(&script, READERS).with_context(|| format!("cannot write {}", script.display()))?;
    Tool::new(setup::fleet::python())
        .arg(&script)
        .arg(memslot)
        .arg(paths::workspace())
        .arg(paths::target().join("test/fleet"))
        .args([setup::fleet::program("prometheus"), setup::fleet::program("promtool")])
        .run()
}
