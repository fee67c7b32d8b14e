//! The report of a comparison, from what `memslot compare --out` wrote.

use super::page::{document, image, verdict};
use super::plain;
use super::table::Table;
use crate::chart::text;
use maud::{Markup, html};
use serde::Deserialize;

/// Versions of `compare.json` that are understood.
const SCHEMA: u32 = 1;

/// What the report takes from `compare.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct Compared {
    schema: u32,
    tool: String,
    verdict: String,
    threshold: f64,
    change_at: f64,
    exact: bool,
    before: Side,
    after: Side,
    reasons: Vec<String>,
    notes: Vec<String>,
    settings: Vec<Setting>,
    comparisons: Vec<Row>,
    control: Option<Control>,
}

#[derive(Clone, Debug, Deserialize)]
struct Side {
    kernels: Vec<String>,
    clocks: Vec<String>,
    runs: Vec<Run>,
}

#[derive(Clone, Debug, Deserialize)]
struct Run {
    name: String,
    label: Option<String>,
    host: String,
    kernel: String,
    complete: bool,
    probes: Vec<Probed>,
}

#[derive(Clone, Debug, Deserialize)]
struct Probed {
    probe: String,
    size: u64,
    attached: String,
    entries: u64,
    calls: u64,
    lost: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Setting {
    name: String,
    before: String,
    after: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Row {
    probe: String,
    size: u64,
    kind: String,
    figure: String,
    unit: String,
    before: Option<Interval>,
    after: Option<Interval>,
    change: Option<Interval>,
    intervals: String,
    runs: [usize; 2],
    p_adjusted: Option<f64>,
    effect: Option<f64>,
    verdict: String,
    reasons: Vec<String>,
    words: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Interval {
    value: f64,
    low: f64,
    high: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Control {
    comparisons: usize,
    significant: usize,
    changed: usize,
    passed: bool,
    words: String,
}

impl Compared {
    /// Reads `compare.json`.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn parse(json: &str) -> Result<Self, String> {
        let compared: Self = serde_json::from_str(json)
            .map_err(|error| format!("is no comparison: {error}; `memslot compare --out DIR` writes one"))?;
        if compared.schema != SCHEMA {
            return Err(format!(
                "is of schema {}, and this memslot reads {SCHEMA}; compare the recordings again",
                compared.schema
            ));
        }
        Ok(compared)
    }
}

/// One document about a comparison; `charts` are the PNGs beside it, with their names.
#[must_use]
pub fn of_comparison(compared: &Compared, charts: &[(String, Vec<u8>)]) -> String {
    let title = format!(
        "memslot: Linux {} against {}",
        compared.after.kernels.join(", "),
        compared.before.kernels.join(", ")
    );
    let body = html! {
        h1 { (plain(&title)) }
        (conclusion(compared))
        nav {
            a href="#changes" { "What changed" }
            a href="#charts" { "Charts" }
            a href="#notes" { "Losses and notes" }
            a href="#provenance" { "Provenance" }
        }
        h2 id="changes" { "What changed" }
        (changes(compared))
        h2 id="charts" { "Charts" }
        @if charts.is_empty() { p { "No charts lie beside the comparison; memslot compare --out writes them." } }
        @for (name, png) in charts { (image(png, name, &name.replace('-', " "))) }
        h2 id="notes" { "Losses and notes" }
        (notes(compared))
        h2 id="provenance" { "Provenance" }
        p { "Compared by memslot " (plain(&compared.tool)) "." }
        (runs(compared))
        @if !compared.settings.is_empty() { (settings(compared)) }
    };
    document(&title, &body)
}

/// `no_difference` as a person reads it.
fn words(key: &str) -> String {
    match key {
        "no_difference" => "no difference found".into(),
        "too_few_runs" => "too few runs to tell".into(),
        other => other.replace('_', " "),
    }
}

fn conclusion(compared: &Compared) -> Markup {
    let is_good = match compared.verdict.as_str() {
        "faster" => Some(true),
        "slower" | "not_comparable" => Some(false),
        _ => None,
    };
    let tally = |verdict: &str| compared.comparisons.iter().filter(|row| row.verdict == verdict).count();
    let mut lines = vec![format!(
        "Of {} figures, {} are slower and {} faster; {} show no difference, {} have too few runs to tell, {} are not \
         comparable. A change takes {} and an adjusted p of {}.",
        compared.comparisons.len(),
        tally("slower"),
        tally("faster"),
        tally("no_difference"),
        tally("too_few_runs"),
        tally("not_comparable"),
        text::share(compared.threshold),
        compared.change_at
    )];
    if compared.exact {
        lines.push("Both sides counted instructions for time: differences are exact.".into());
    }
    let mut clocks: Vec<&str> =
        compared.before.clocks.iter().chain(&compared.after.clocks).map(String::as_str).collect();
    clocks.sort_unstable();
    clocks.dedup();
    if !compared.exact && clocks != ["hardware"] {
        lines.push(format!(
            "The clocks are {}: this is not the time that hardware takes.",
            clocks.join(" and ")
        ));
    }
    lines.extend(compared.reasons.iter().map(|reason| format!("Not comparable: {reason}.")));
    if let Some(control) = compared.control.as_ref().filter(|control| !control.passed) {
        lines.push(format!("The control did not pass: {}.", control.words));
    }
    let mut headline = words(&compared.verdict);
    if let Some(first) = headline.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    verdict(is_good, &headline, &lines)
}

fn figure(value: f64, unit: &str) -> String {
    match unit {
        "ns" => text::time(value),
        "share" => text::share(value),
        "instructions" => format!("{} instructions", text::figure(value)),
        _ => text::figure(value),
    }
}

fn changes(compared: &Compared) -> Markup {
    let headings = [
        "probe",
        "size",
        "kind",
        "figure",
        "before",
        "after",
        "change",
        "95 % interval",
        "p adjusted",
        "effect",
        "runs",
    ];
    let headings = headings.into_iter().chain(["verdict", "why"]).map(str::to_owned).collect();
    let none = || "–".to_owned();
    let percent = |value: f64| text::signed_percent(value * 100.0);
    let row = |row: &Row| {
        let interval = row.change.map_or_else(none, |change| {
            let mark = if row.intervals == "blocks" { " *" } else { "" };
            format!("{} to {}{mark}", percent(change.low), percent(change.high))
        });
        let why = row.reasons.iter().chain(Some(&row.words)).filter(|word| !word.is_empty());
        vec![
            row.probe.clone(),
            text::count(row.size),
            row.kind.replace('_', " "),
            row.figure.replace('_', " "),
            row.before.map_or_else(none, |one| figure(one.value, &row.unit)),
            row.after.map_or_else(none, |one| figure(one.value, &row.unit)),
            row.change.map_or_else(none, |one| percent(one.value)),
            if row.intervals == "exact" { "exact".into() } else { interval },
            row.p_adjusted
                .map_or_else(none, |p| if p < 0.0001 { "<0.0001".into() } else { format!("{p:.4}") }),
            row.effect.map_or_else(none, |effect| format!("{effect:.2}")),
            format!("{} + {}", row.runs[0], row.runs[1]),
            words(&row.verdict),
            why.cloned().collect::<Vec<_>>().join("; "),
        ]
    };
    let table = Table { headings, rows: compared.comparisons.iter().map(row).collect() };
    let mark = |cell: &str| match cell {
        "slower" => Some("bad"),
        "faster" => Some("good"),
        _ => None,
    };
    html! {
        (table.html("What changed", mark))
        p.soft { "Size: slots, regions or vCPUs. Effect: Cliff's delta over runs, -1 all faster to 1 all slower. *: with fewer "
            "than three runs on a side the interval tells of chance within these runs only." }
    }
}

fn notes(compared: &Compared) -> Markup {
    let mut lines = compared.notes.clone();
    for (name, side) in [("before", &compared.before), ("after", &compared.after)] {
        let lost: u64 = side.runs.iter().flat_map(|run| &run.probes).map(|probe| probe.lost).sum();
        let calls: u64 = side.runs.iter().flat_map(|run| &run.probes).map(|probe| probe.calls).sum();
        lines.push(format!(
            "{name}: {} calls, {} lost; time is {}",
            text::count(calls),
            text::count(lost),
            side.clocks.join(" and ")
        ));
    }
    if let Some(control) = &compared.control {
        lines.push(format!(
            "control, {} comparisons of the before runs with themselves: {} with something significant, {} with a change: {}",
            control.comparisons, control.significant, control.changed, control.words
        ));
    }
    html! { ul { @for line in lines { li { (plain(&line)) } } } }
}

fn runs(compared: &Compared) -> Markup {
    let headings =
        ["side", "run", "label", "host", "kernel", "probe", "size", "attached", "entries", "calls", "lost"];
    let mut rows = Vec::new();
    for (name, side) in [("before", &compared.before), ("after", &compared.after)] {
        for run in &side.runs {
            for probe in &run.probes {
                rows.push(vec![
                    name.to_owned(),
                    run.name.clone() + if run.complete { "" } else { " (cut off)" },
                    run.label.clone().unwrap_or_default(),
                    run.host.clone(),
                    run.kernel.clone(),
                    probe.probe.clone(),
                    text::count(probe.size),
                    probe.attached.clone(),
                    text::count(probe.entries),
                    text::count(probe.calls),
                    text::count(probe.lost),
                ]);
            }
        }
    }
    Table { headings: headings.map(str::to_owned).into(), rows }.html("Runs", |_| None)
}

fn settings(compared: &Compared) -> Markup {
    let rows = compared.settings.iter();
    let rows = rows.map(|one| vec![one.name.clone(), one.before.clone(), one.after.clone()]).collect();
    let headings = ["setting", "before", "after"].map(str::to_owned).into();
    html! { h3 { "Settings that differ" } (Table { headings, rows }.html("Settings", |_| None)) }
}
