//! What the recordings before foretell, held against what the kernel after did.

use crate::command::Tool;
use crate::run::scenario::Scenario;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The search that the kernel after is said to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Search {
    /// An engine of `memslot replay`.
    engine: String,
    /// Whose last-used slot it asks first, as in `memslot replay --last-used`.
    last_used: Option<String>,
}

/// `ENGINE` or `ENGINE:WHOSE`.
pub(super) fn search(text: &str) -> Result<Search, String> {
    let (engine, last_used) = match text.split_once(':') {
        Some((engine, whose)) => (engine, Some(whose.to_owned())),
        None => (text, None),
    };
    if engine.is_empty() || last_used.as_ref().is_some_and(String::is_empty) {
        return Err(
            "name an engine, e.g. linear, or one and whose last-used slot it asks, e.g. rbtree:off".into()
        );
    }
    Ok(Search { engine: engine.to_owned(), last_used })
}

/// One quantile of one workload. Latencies are in ns, in the exact mode instructions.
#[derive(Debug, PartialEq, Serialize)]
struct Row {
    workload: String,
    quantile: &'static str,
    before: f64,
    /// By the slope of latency over nodes visited; null where the recording gives none.
    by_slope: Option<f64>,
    /// By the engine's own time on the recording's clock; null where it was not timed.
    by_clock: Option<f64>,
    after: f64,
}

impl Row {
    /// Error of the whole latency, relative to the observed one.
    fn error(&self, predicted: Option<f64>) -> Option<f64> {
        Some((predicted? - self.after) / self.after)
    }

    /// Error of the change alone, relative to the observed change.
    fn error_of_change(&self, predicted: Option<f64>) -> Option<f64> {
        let change = self.after - self.before;
        Some((predicted? - self.after) / change).filter(|error| error.is_finite())
    }
}

/// Predicts each workload from its first recording before, and writes `prediction.json` and `prediction.md`, whose text
/// comes back.
///
/// # Errors
/// When a recording cannot be replayed, or no workload is recorded on both sides.
pub(super) fn predict(
    memslot: &Path,
    out: &Path,
    scenarios: &[&Scenario],
    search: &Search,
) -> Result<String> {
    let mut rows = Vec::new();
    let (before, after) = (super::recordings(out, "before")?, super::recordings(out, "after")?);
    for label in scenarios.iter().filter(|scenario| scenario.searches()).map(|scenario| scenario.label) {
        let first = |side: &[PathBuf]| side.iter().find(|recording| recording.ends_with(label)).cloned();
        if let (Some(before), Some(after)) = (first(&before), first(&after)) {
            let expected = replay(memslot, &out.join(before), search)?;
            let observed = replay(memslot, &out.join(after), search)?;
            rows.extend(of_workload(label, search, &expected, &observed)?);
        }
    }
    ensure!(
        !rows.is_empty(),
        "there is no workload that was recorded before and after, so nothing to predict"
    );
    let write = |name: &str, text: &str| {
        fs::write(out.join(name), text).with_context(|| format!("cannot write {name} in {}", out.display()))
    };
    write("prediction.json", &(serde_json::to_string_pretty(&rows)? + "\n"))?;
    let text = text(&rows);
    write("prediction.md", &text)?;
    Ok(text)
}

fn replay(memslot: &Path, recording: &Path, search: &Search) -> Result<Value> {
    let mut command = Tool::new(memslot).arg("replay").arg(recording).args(["--json", "--rounds", "1"]);
    if let Some(whose) = &search.last_used {
        command = command.args(["--last-used", whose]);
    }
    let (code, json, complaints) = command.answer()?;
    ensure!(code < 2, "`{}` failed:\n{complaints}", command.command_line());
    serde_json::from_str(&json).with_context(|| format!("`{}` printed no JSON", command.command_line()))
}

fn of_workload(label: &str, search: &Search, expected: &Value, observed: &Value) -> Result<Vec<Row>> {
    let (before, after) = (&expected["replay"][0], &observed["replay"][0]);
    let named = |engines: &Value| -> Value {
        let mut engines = engines.as_array().into_iter().flatten();
        engines.find(|engine| engine["engine"] == *search.engine).cloned().unwrap_or_default()
    };
    let by_slope = named(&before["engines"]);
    ensure!(!by_slope.is_null(), "memslot replays {label} through no engine {}", search.engine);
    let by_clock = named(&before["check"]["same_clock"]["engines"]);
    ["p50", "p90", "p99"]
        .into_iter()
        .map(|quantile| {
            let figure = |replay: &Value, side: &str| {
                let figure = replay["latency_ns"][quantile].as_f64();
                figure.with_context(|| format!("{label} has no latency {side}"))
            };
            Ok(Row {
                workload: label.to_owned(),
                quantile,
                before: figure(before, "before")?,
                by_slope: by_slope["predicted"]["latency_ns"][quantile].as_f64(),
                by_clock: by_clock["predicted"]["latency_ns"][quantile].as_f64(),
                after: figure(after, "after")?,
            })
        })
        .collect()
}

fn text(rows: &[Row]) -> String {
    let ns = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.0}"));
    let percent =
        |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{:+.1} %", value * 100.0));
    let mut text =
        "| workload | quantile | before | by slope | by clock | after | error, by slope | by clock \
                    | error of the change, by slope | by clock |\n\
                    |---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.workload,
            row.quantile,
            ns(Some(row.before)),
            ns(row.by_slope),
            ns(row.by_clock),
            ns(Some(row.after)),
            percent(row.error(row.by_slope)),
            percent(row.error(row.by_clock)),
            percent(row.error_of_change(row.by_slope)),
            percent(row.error_of_change(row.by_clock)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_search_is_an_engine_and_whose_slot_it_asks() {
        let found = search("rbtree:off").unwrap();
        assert_eq!((found.engine.as_str(), found.last_used.as_deref()), ("rbtree", Some("off")));
        assert_eq!(search("linear").unwrap().last_used, None);
        assert!(search("").is_err() && search("linear:").is_err() && search(":off").is_err());
    }

    fn latency(p50: f64) -> Value {
        json!({"p50": p50, "p90": p50 + 10.0, "p99": p50 + 20.0})
    }

    #[test]
    fn errors_are_of_the_whole_and_of_the_change() {
        let expected = json!({"replay": [{
            "latency_ns": latency(100.0),
            "engines": [
                {"engine": "interval_tree", "predicted": null},
                {"engine": "linear", "predicted": {"latency_ns": latency(190.0)}},
            ],
            "check": {"same_clock": {"engines": [
                {"engine": "linear", "predicted": {"latency_ns": latency(210.0)}},
            ]}},
        }]});
        let observed = json!({"replay": [{"latency_ns": latency(200.0)}]});
        let rows = of_workload("regions-53", &search("linear").unwrap(), &expected, &observed).unwrap();
        assert_eq!(rows.len(), 3);
        let first = text(&rows[..1]);
        let line = "| regions-53 | p50 | 100 | 190 | 210 | 200 | -5.0 % | +5.0 % | -10.0 % | +10.0 % |\n";
        assert!(first.ends_with(line), "{first}");
        // No line, no times: nothing is predicted, and nothing claimed.
        let rows = of_workload("x", &search("interval_tree").unwrap(), &expected, &observed).unwrap();
        assert_eq!((rows[0].by_slope, rows[0].by_clock), (None, None));
        assert!(text(&rows).contains("| – | – | 200 | – | – | – | – |"));
        let said = of_workload("x", &search("eytzinger").unwrap(), &expected, &observed).unwrap_err();
        assert!(said.to_string().contains("no engine eytzinger"));
    }

    #[test]
    fn no_change_has_no_error_of_its_own() {
        let row = Row {
            workload: String::new(),
            quantile: "p50",
            before: 5.0,
            by_slope: Some(5.0),
            by_clock: None,
            after: 5.0,
        };
        assert_eq!((row.error(row.by_slope), row.error_of_change(row.by_slope)), (Some(0.0), None));
    }
}
