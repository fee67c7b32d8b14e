//! `cargo xtask compare` as a user calls it: a change is found, and none where there is none.

use super::cargo;
use crate::paths;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{fs, path::Path};

const PATCH: &str = "xtask/lab/patches/vhost-iotlb-linear.patch";

pub(super) fn run() -> Result<()> {
    let xtask = || cargo().args(["run", "--quiet", "--package", "xtask", "--"]);
    let built = xtask().args(["module", "--kernel", "6.12", "--patch", PATCH]).text()?;
    let modules = built.lines().next_back().context("xtask module printed no directory")?;
    let compare = |after: &str, name: &str| -> Result<(i32, Value)> {
        let out = paths::target().join("test/compare").join(name);
        if out.exists() {
            fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
        }
        let code = xtask()
            .args(["compare", "--before", "6.12", "--after", after, "--exact", "--runs", "1"])
            .args(["--workload", "regions-53", "--out"])
            .arg(&out)
            .exit_code()?;
        Ok((code, read(&out)?))
    };
    let (code, comparison) = compare(&format!("6.12+{modules}"), "linear")?;
    ensure!(code == 1, "a linear search: exit code {code} instead of 1");
    slower(&comparison)?;
    let (code, comparison) = compare("6.12", "itself")?;
    ensure!(code == 0, "a kernel against itself: exit code {code}");
    equal(&comparison)
}

/// Its comparison, and that the rest of what was promised is there.
fn read(out: &Path) -> Result<Value> {
    let markdown = fs::metadata(out.join("compare.md"));
    ensure!(markdown.is_ok_and(|file| file.len() > 0), "no compare.md in {}", out.display());
    let charts =
        fs::read_dir(out)?.flatten().filter(|entry| entry.path().extension() == Some("png".as_ref()));
    ensure!(charts.count() > 2, "hardly a chart in {}", out.display());
    let path = out.join("compare.json");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).context("compare.json is no JSON")
}

fn figures(comparison: &Value) -> Result<&Vec<Value>> {
    ensure!(comparison["exact"] == true, "the comparison is not exact");
    comparison["comparisons"].as_array().filter(|rows| rows.len() > 3).context("hardly a figure was compared")
}

/// A list of 53 regions costs more than their tree, and the probes see the same tree on both sides.
fn slower(comparison: &Value) -> Result<()> {
    ensure!(comparison["verdict"] == "slower", "verdict {}", comparison["verdict"]);
    let figures = figures(comparison)?;
    for figure in ["p50", "p90", "p99"] {
        let row =
            figures.iter().find(|row| row["figure"] == figure).with_context(|| format!("no {figure}"))?;
        let change = row["change"]["value"].as_f64().unwrap_or(0.0);
        ensure!(
            row["verdict"] == "slower" && change > 0.1,
            "{figure} changed by {change}: {}",
            row["verdict"]
        );
    }
    let length = figures.iter().find(|row| row["figure"] == "search_length").context("no search length")?;
    ensure!(length["difference"]["value"] == 0.0, "the tree changed: {}", length["difference"]);
    Ok(())
}

fn equal(comparison: &Value) -> Result<()> {
    ensure!(comparison["verdict"] == "no_difference", "verdict {}", comparison["verdict"]);
    for row in figures(comparison)? {
        ensure!(row["difference"]["value"] == 0.0, "{} differs: {}", row["figure"], row["difference"]);
    }
    Ok(())
}
