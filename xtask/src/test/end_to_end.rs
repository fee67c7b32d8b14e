//! `cargo xtask run` as a user calls it, and whether what it leaves is what it promises.

use super::cargo;
use crate::paths;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{fs, path::Path};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

pub(super) fn run() -> Result<()> {
    let out = paths::target().join("test/run");
    cargo().args(["run", "--quiet", "--package", "xtask", "--", "run", "--lab", "--out"]).arg(&out).run()?;
    let path = out.join("summary.json");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let summary: Value = serde_json::from_str(&text).context("summary.json is no JSON")?;
    check(&summary, &out.join("charts"))
}

/// The keys that scripts rely on, with figures that a run in the lab must have.
fn check(summary: &Value, charts: &Path) -> Result<()> {
    ensure!(summary["schema"] == 1, "schema {}", summary["schema"]);
    ensure!(summary["mode"] == "lab", "mode {}", summary["mode"]);
    ensure!(summary["complete"] == true, "the recordings are not complete");
    ensure!(
        summary["kernel"].as_str().is_some_and(|kernel| kernel.starts_with("6.")),
        "kernel {}",
        summary["kernel"]
    );
    for probe in ["page_fault", "ple", "translate"] {
        let figures = &summary["probes"][probe];
        ensure!(summary["attach"][probe] == "fentry", "{probe} is attached by {}", summary["attach"][probe]);
        let entries = figures["entries"].as_u64().unwrap_or(0);
        ensure!(entries > 1000, "{probe}: only {entries} entries");
        ensure!(figures["returns"] == entries, "{probe}: {entries} entries, {} returns", figures["returns"]);
        ensure!(figures["lost"]["total"] == 0, "{probe}: lost {}", figures["lost"]);
        for quantile in ["p50", "p90", "p99"] {
            let value = figures["latency_ns"][quantile].as_f64().unwrap_or(0.0);
            ensure!(value > 0.0, "{probe}: {quantile} is {value}");
        }
    }
    for probe in ["page_fault", "translate"] {
        let histogram = summary["probes"][probe]["search_length"]["histogram"].as_object();
        ensure!(
            histogram.is_some_and(|lengths| lengths.len() > 3),
            "{probe}: no histogram of search lengths"
        );
    }
    let engines = summary["engines"].as_array().context("no engines")?;
    for engine in ["linear", "linear_by_size", "sorted_array", "wbtree"] {
        for probe in ["page_fault", "translate"] {
            let found: Vec<_> =
                engines.iter().filter(|row| row["engine"] == engine && row["probe"] == probe).collect();
            ensure!(!found.is_empty(), "{engine} did not replay {probe}");
            for row in found {
                ensure!(row["mismatches"] == 0, "{engine} on {probe}: {} mismatches", row["mismatches"]);
                ensure!(row["lookups"].as_u64() > Some(0), "{engine} on {probe} made no look-up");
            }
        }
    }
    let drawn = summary["charts"].as_array().context("no charts")?;
    ensure!(drawn.len() >= 10, "only {} charts", drawn.len());
    for chart in drawn {
        let path = charts.join(chart.as_str().context("a chart without a name")?);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(bytes.starts_with(PNG) && bytes.len() > 5000, "{} is no chart", path.display());
    }
    Ok(())
}
