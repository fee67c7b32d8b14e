//! From the files that a guest left to figures.

use super::plan::{COMPARED, Function, Measurement, PAGE_FAULT, TRANSLATE, Tool, WALKED};
use crate::command::Tool as Command;
use crate::peers;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path};

/// What a tool counted of the calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Counted {
    /// Calls that the workload made.
    pub(super) calls: u64,
    /// Those that the tool knows of.
    pub(super) counted: u64,
    /// The others.
    pub(super) lost: u64,
    /// Those of the lost that the tool itself speaks of.
    pub(super) lost_reported: u64,
    /// The fullest bucket of its histogram, ns if nothing else is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shows: Option<String>,
}

/// One function at one number of slots or regions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Costs {
    /// Instructions of the whole workload for each call, nothing attached.
    pub(super) baseline: f64,
    /// The same once more at the end, after every tool has been attached and detached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) baseline_again: Option<f64>,
    /// Nodes that the kernel's search stands at in a call, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nodes: Option<f64>,
    /// Instructions that a tool adds to each call.
    pub(super) added: BTreeMap<String, f64>,
    /// What it counted.
    pub(super) counted: BTreeMap<String, Counted>,
}

/// What a probe's walk of the tree costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Walk {
    /// Instructions a node: the slope of the least-squares line through all numbers of regions.
    pub(super) per_node: f64,
    /// Instructions at [`COMPARED`] regions without the walk.
    pub(super) without: f64,
}

/// One kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Kernel {
    /// `translate_desc` at [`COMPARED`] regions.
    #[serde(flatten)]
    pub(super) translate: Costs,
    /// Instructions that the walk adds a node, of events by fentry.
    pub(super) walk_per_node: f64,
    /// The same by way of recording.
    pub(super) walk: BTreeMap<String, Walk>,
    /// `translate_desc` at the other numbers of regions.
    pub(super) by_regions: BTreeMap<u32, Costs>,
    /// `kvm_mmu_page_fault` at [`COMPARED`] slots.
    pub(super) page_fault: Costs,
}

/// Reads what the measurements left in `directory`; the kernel's release and its figures.
///
/// # Errors
/// When a file is missing or does not say what it should.
pub(super) fn read(
    directory: &Path,
    measurements: &[Measurement],
    memslot: &Path,
) -> Result<(String, Kernel)> {
    let release = text(&directory.join("release"))?.trim().to_owned();
    let mut costs: BTreeMap<(&str, u32), Costs> = BTreeMap::new();
    for measurement in measurements {
        let (function, ranges) = (measurement.workload.function, measurement.workload.ranges);
        let costs = costs.entry((function.name, ranges)).or_default();
        add(costs, directory, measurement, memslot)
            .with_context(|| format!("the measurement {} is not to be used", measurement.name()))?;
    }
    let mut take = |function: Function, ranges| {
        costs.remove(&(function.name, ranges)).with_context(|| format!("{} was not measured", function.name))
    };
    let (page_fault, translate) = (take(PAGE_FAULT, COMPARED)?, take(TRANSLATE, COMPARED)?);
    let mut by_regions = BTreeMap::new();
    for ranges in WALKED.into_iter().filter(|ranges| *ranges != COMPARED) {
        by_regions.insert(ranges, take(TRANSLATE, ranges)?);
    }
    let walk = walks(&translate, &by_regions);
    let walk_per_node = walk.get("event").context("no events were recorded")?.per_node;
    Ok((release, Kernel { translate, walk_per_node, walk, by_regions, page_fault }))
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn json(path: &Path) -> Result<Value> {
    serde_json::from_str(&text(path)?).with_context(|| format!("{} is no JSON", path.display()))
}

fn add(costs: &mut Costs, directory: &Path, measurement: &Measurement, memslot: &Path) -> Result<()> {
    let (name, function) = (measurement.name(), measurement.workload.function);
    let workload = json(&directory.join(format!("{name}.workload")))?;
    let duration = workload["duration_ns"].as_f64().context("the workload says nothing of its duration")?;
    let calls = workload["calls"][function.name].as_u64().filter(|calls| *calls > 0);
    let calls = calls.with_context(|| format!("the workload says nothing of {}", function.name))?;
    ensure!(workload["exact"] == true, "the workload does not promise its calls: {}", workload["inexact"]);
    let each = duration / calls as f64;
    match measurement.tool {
        Tool::Nothing { again: false } => costs.baseline = each,
        Tool::Nothing { again: true } => costs.baseline_again = Some(each),
        _ => {
            let key = measurement.tool.key();
            costs.added.insert(key.clone(), each - costs.baseline);
            let said = text(&directory.join(format!("{name}.tool")))?;
            let recording = directory.join(format!("{name}.recording"));
            let counted = match &measurement.tool {
                Tool::Memslot { mode, .. } => by_memslot(&recording, function, mode, calls)?,
                Tool::PerfFtrace => by_peer(&peers::perf_histogram(&said), calls),
                Tool::Bpftrace(_) | Tool::Nothing { .. } => by_peer(&peers::bpftrace_histogram(&said), calls),
            };
            ensure!(counted.counted > 0, "the tool counted nothing, and said\n{said}");
            costs.counted.insert(key.clone(), counted);
            if key == "event" {
                costs.nodes = Some(nodes(&recording, function, memslot)?);
            }
        }
    }
    Ok(())
}

fn by_peer(histogram: &peers::Histogram, calls: u64) -> Counted {
    let counted = histogram.count();
    let lost = calls.saturating_sub(counted);
    Counted { calls, counted, lost, lost_reported: 0, shows: histogram.mode().map(str::to_owned) }
}

fn by_memslot(recording: &Path, function: Function, mode: &str, calls: u64) -> Result<Counted> {
    let meta = json(&recording.join("meta.json"))?;
    let probe = &meta["probes"][function.probe];
    let number = |key: &str| probe["account"][key].as_u64().with_context(|| format!("meta.json lacks {key}"));
    let reasons = ["ring_full", "return_lost", "start_full", "clock_back", "missed"];
    let mut lost_reported = 0;
    for reason in reasons {
        lost_reported += number(reason)?;
    }
    let returns = number("returns")?;
    ensure!(number("entries")? == returns, "{} entries and {returns} returns", number("entries")?);
    // Where all events are asked for, what counts is what came to the disk.
    let counts = if mode == "events" { "events" } else { "counted" };
    let counted = probe[counts].as_u64().with_context(|| format!("meta.json lacks {counts}"))?;
    Ok(Counted { calls, counted, lost: calls.saturating_sub(counted), lost_reported, shows: None })
}

/// Mean nodes of a search, as the tool's own summary has them.
fn nodes(recording: &Path, function: Function, memslot: &Path) -> Result<f64> {
    let (_, printed, error) =
        Command::new(memslot).args(["summary", "--json", "--no-replay"]).arg(recording).answer()?;
    let summary: Value = serde_json::from_str(&printed).with_context(|| format!("no summary: {error}"))?;
    summary["probes"][function.probe]["search_length"]["mean"].as_f64().context("no search lengths")
}

/// For every tool that was measured at each number of regions: what it adds over the nodes of the search.
fn walks(compared: &Costs, others: &BTreeMap<u32, Costs>) -> BTreeMap<String, Walk> {
    let all: Vec<&Costs> = others.values().chain([compared]).collect();
    let mut walks = BTreeMap::new();
    for (key, added) in &compared.added {
        let points: Option<Vec<(f64, f64)>> =
            all.iter().map(|costs| Some((costs.nodes?, *costs.added.get(key)?))).collect();
        if let (Some(points), Some(nodes)) = (points, compared.nodes) {
            let per_node = slope(&points);
            walks.insert(key.clone(), Walk { per_node, without: added - per_node * nodes });
        }
    }
    walks
}

/// Of the least-squares line.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    covariance / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(nodes: f64, added: f64) -> Costs {
        let added = [("event".to_owned(), added), (format!("only {nodes}"), 1.0)].into();
        Costs { nodes: Some(nodes), added, ..Costs::default() }
    }

    #[test]
    fn the_walk_is_the_slope_over_the_nodes() {
        let others = [(3, costs(2.0, 1200.0)), (509, costs(10.0, 2000.0))].into();
        let walks = walks(&costs(6.0, 1600.0), &others);
        assert_eq!(walks["event"], Walk { per_node: 100.0, without: 1000.0 });
        // What was measured at one number of regions alone has no slope.
        assert_eq!(walks.len(), 1);
    }

    #[test]
    fn what_a_guest_left_becomes_figures() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        let workload = |duration: u64| {
            format!("{{\"duration_ns\":{duration},\"exact\":true,\"calls\":{{\"translate_desc\":100}}}}")
        };
        write("translate-53.baseline.workload", &workload(60_000));
        write("translate-53.perf_ftrace.workload", &workload(390_000));
        write("translate-53.perf_ftrace.tool", "  0 - 1    us |   30 | # |\n  1 - 2    us |   16 | # |\n");
        write("translate-53.bpftrace_kfunc.workload", &workload(260_000));
        write("translate-53.bpftrace_kfunc.tool", "an error\n");
        let add = |costs: &mut Costs, tool| {
            let workload = super::super::plan::Workload { function: TRANSLATE, ranges: 53 };
            add(costs, directory.path(), &Measurement { workload, tool }, Path::new("memslot"))
        };
        let mut costs = Costs::default();
        add(&mut costs, Tool::Nothing { again: false }).unwrap();
        add(&mut costs, Tool::PerfFtrace).unwrap();
        assert_eq!((costs.baseline, costs.added["perf_ftrace"]), (600.0, 3300.0));
        let counted = Counted {
            calls: 100,
            counted: 46,
            lost: 54,
            lost_reported: 0,
            shows: Some("0 - 1 us".to_owned()),
        };
        assert_eq!(costs.counted["perf_ftrace"], counted);
        // A tool that failed has no cost.
        let error = add(&mut costs, Tool::Bpftrace("kfunc")).unwrap_err();
        assert!(error.to_string().contains("an error"), "{error}");
    }
}
