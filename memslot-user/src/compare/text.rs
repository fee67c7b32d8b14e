//! The comparison as a table for a terminal, in the manner of benchstat.

use super::outcome::{Comparison, Mean, Row, SideSummary};
use super::predict;
use super::resample::{Basis, Interval};
use super::rows::sized;
use super::{Unit, Verdict};
use crate::chart::text::{count, figure, share, time};
use crate::report::tables::table;

/// The whole comparison.
#[must_use]
pub fn text(comparison: &Comparison) -> String {
    let mut parts = vec![head(comparison)];
    for (probe, size) in comparison.strata() {
        let rows: Vec<&Row> =
            comparison.comparisons.iter().filter(|row| (row.probe, row.size) == (probe, size)).collect();
        let heading =
            rows.first().map(|row| format!("{} ({})", row.stratum(), runs(row))).unwrap_or_default();
        let mut table = table(&["kind", "figure"], &["before", "after", "change", "p", "effect", "verdict"]);
        if let Some(column) = table.column_mut(7) {
            column.set_cell_alignment(comfy_table::CellAlignment::Left);
        }
        for (place, row) in rows.iter().enumerate() {
            let repeated = place > 0 && rows[place - 1].kind == row.kind;
            let kind = if repeated { "" } else { row.kind_name };
            table.add_row([kind.to_owned(), figure_name(row)].into_iter().chain(cells(row)));
        }
        parts.push(format!("{heading}\n{}\n", table.trim_fmt()));
    }
    if !comparison.means.is_empty() {
        parts.push(means(comparison));
    }
    parts.extend(predict::text(&comparison.foretold));
    let mut notes: Vec<String> = comparison.notes.clone();
    notes.extend(legend(comparison));
    notes.extend(comparison.settings.iter().map(|setting| {
        format!("setting {}: {} before, {} after", setting.name, setting.before, setting.after)
    }));
    if let Some(control) = &comparison.control {
        notes.push(control_words(control));
    }
    if !notes.is_empty() {
        parts.push(format!("Notes\n  {}\n", notes.join("\n  ")));
    }
    parts.push(conclusion(comparison).join("\n") + "\n");
    parts.join("\n")
}

fn head(comparison: &Comparison) -> String {
    let side = |name: &str, side: &SideSummary| {
        let lost: u64 = side.runs.iter().flat_map(|run| &run.probes).map(|probe| probe.lost).sum();
        let calls: u64 = side.runs.iter().flat_map(|run| &run.probes).map(|probe| probe.calls).sum();
        let clocks: Vec<String> = side.clocks.iter().map(ToString::to_string).collect();
        format!(
            "{name}  Linux {}, {} run{}, {}, {} calls, {} lost\n",
            side.kernels.join(" and "),
            side.runs.len(),
            if side.runs.len() == 1 { "" } else { "s" },
            clocks.join(" and "),
            count(calls),
            count(lost)
        )
    };
    side("before", &comparison.before) + &side("after ", &comparison.after)
}

pub(super) fn runs(row: &Row) -> String {
    format!("{} + {} runs", row.runs[0], row.runs[1])
}

pub(super) fn figure_name(row: &Row) -> String {
    match row.figure.as_str() {
        "search_length" => "search length".into(),
        "share_of_time" => "share of time".into(),
        name => name.to_owned(),
    }
}

/// Before, after, change, p, effect, verdict.
pub(super) fn cells(row: &Row) -> [String; 6] {
    let none = || "–".to_owned();
    [
        row.before.map_or_else(none, |value| estimate(value, row)),
        row.after.map_or_else(none, |value| estimate(value, row)),
        row.change.map_or_else(none, |value| change(value, row)),
        row.p_adjusted.map_or_else(none, p),
        row.effect.map_or_else(none, |effect| figure((effect * 100.0).round() / 100.0)),
        verdict(row),
    ]
}

fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => time(value),
        Unit::Instructions => instructions(value),
        Unit::Nodes => figure(value),
        Unit::Share => format!("{} %", figure(value * 100.0)),
    }
}

/// Instructions are exact, so none is rounded away.
fn instructions(value: f64) -> String {
    let whole = format!("{:.0}", value.abs());
    let digits = whole.parse().map_or(whole, count);
    let half = if value.fract() == 0.0 {
        String::new()
    } else {
        format!("{:.1}", value.fract().abs())[1..].to_owned()
    };
    format!("{}{digits}{half} instr", if value < 0.0 { "-" } else { "" })
}

fn estimate(estimate: Interval, row: &Row) -> String {
    let text = value(estimate.value, row.unit);
    if row.intervals == Basis::Exact || estimate.value == 0.0 {
        return text;
    }
    // As in benchstat: the farther end, as a share.
    let reach = (estimate.high - estimate.value).max(estimate.value - estimate.low) / estimate.value;
    format!("{text} ± {:.0} %{}", (reach * 100.0).ceil(), mark(row))
}

fn mark(row: &Row) -> &'static str {
    if row.intervals == Basis::WithinRuns { " *" } else { "" }
}

/// A relative change in per cent, with its sign and without the unit.
pub(crate) fn signed(change: f64) -> String {
    let percent = change * 100.0;
    let digits = if percent.abs() >= 99.95 {
        0
    } else if percent.abs() < 0.995 {
        2
    } else {
        1
    };
    let text = format!("{percent:+.digits$}");
    if text.trim_matches(['+', '-', '0', '.']).is_empty() { "0".into() } else { text }
}

fn change(change: Interval, row: &Row) -> String {
    if row.intervals == Basis::Exact {
        return signed(change.value) + " %";
    }
    format!("{} % ({} … {}){}", signed(change.value), signed(change.low), signed(change.high), mark(row))
}

fn p(p: f64) -> String {
    match p {
        small if small < 0.0001 => "<0.0001".into(),
        large if large > 0.9999 => "1".into(),
        p => format!("{p:.4}"),
    }
}

fn verdict(row: &Row) -> String {
    match (row.verdict, row.words.as_str()) {
        // Said once, in the notes or the conclusion.
        (Verdict::TooFewRuns | Verdict::NotComparable, _) | (_, "") => row.verdict.to_string(),
        (verdict, words) => format!("{verdict} ({words})"),
    }
}

fn means(comparison: &Comparison) -> String {
    let mut table = table(&["probe", "kind", "side"], &["runs", "calls", "mean (stdev)"]);
    for mean in &comparison.means {
        table.add_row([
            format!("{}, {}", mean.probe.name(), sized(mean.probe, mean.size)),
            mean.kind_name.to_owned(),
            mean.side.to_owned(),
            mean.runs.to_string(),
            count(mean.calls),
            mean_text(mean),
        ]);
    }
    format!("Mean (stdev) over runs\n{}\n", table.trim_fmt())
}

pub(super) fn mean_text(mean: &Mean) -> String {
    let shown = |number: f64| match mean.unit {
        Unit::Instructions => format!("{} instr", figure(number)),
        unit => value(number, unit),
    };
    let deviation = mean.deviation.map_or_else(|| "–".into(), shown);
    format!("{} ({deviation})", shown(mean.mean))
}

/// What marks mean, of those that occur.
pub(super) fn legend(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    if comparison.comparisons.iter().any(|row| row.intervals == Basis::WithinRuns) {
        lines.push("* within these runs only: another run may lie elsewhere".into());
    }
    if comparison.comparisons.iter().any(|row| row.p.is_some()) {
        lines.push(format!(
            "p: Mann–Whitney over runs, Holm-adjusted over all {} comparisons; a change takes p ≤ {} and {} or more",
            comparison.comparisons.iter().filter(|row| row.p.is_some()).count(),
            comparison.change_at,
            share(comparison.threshold)
        ));
    }
    lines
}

pub(super) fn control_words(control: &super::Control) -> String {
    if control.comparisons == 0 {
        return format!("control: {}", control.words);
    }
    format!(
        "control: of {} comparisons of the before runs with themselves, {} had a significant figure and {} called a \
         change: {}",
        control.comparisons, control.significant, control.changed, control.words
    )
}

/// The answer, in words.
pub(super) fn conclusion(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for verdict in [Verdict::Slower, Verdict::Faster] {
        for row in comparison.comparisons.iter().filter(|row| row.verdict == verdict) {
            let by = row.change.map_or_else(|| "from 0".into(), |change| change_words(change, row));
            lines.push(format!(
                "{verdict}: {}, {}, {}: {by}",
                row.stratum(),
                row.kind_name,
                figure_name(row)
            ));
        }
    }
    let mut reasons: Vec<String> = Vec::new();
    for row in comparison.comparisons.iter().filter(|row| row.verdict == Verdict::NotComparable) {
        for reason in &row.reasons {
            let text = if comparison.reasons.contains(reason) {
                reason.clone()
            } else if reason.starts_with("calls:") {
                format!("{}, {}: {reason}", row.stratum(), row.kind_name)
            } else {
                format!("{}: {reason}", row.stratum())
            };
            if !reasons.contains(&text) {
                reasons.push(text);
            }
        }
    }
    if comparison.comparisons.is_empty() {
        reasons.clone_from(&comparison.reasons);
    }
    lines.extend(reasons.into_iter().map(|reason| format!("not comparable: {reason}")));
    let of = |verdict| comparison.comparisons.iter().filter(|row| row.verdict == verdict).count();
    for verdict in [Verdict::TooFewRuns, Verdict::NoDifference] {
        if of(verdict) > 0 {
            lines.push(format!("{verdict}: {} of {} figures", of(verdict), comparison.comparisons.len()));
        }
    }
    lines
}

fn change_words(change: Interval, row: &Row) -> String {
    let difference = row.difference.map(|difference| match row.unit {
        Unit::Share => format!("{} percentage points", figure(difference.value * 100.0)),
        Unit::Nodes => format!("{} nodes", figure(difference.value)),
        unit => value(difference.value, unit),
    });
    let difference = difference.unwrap_or_default();
    let sign = if change.value > 0.0 { "+" } else { "" };
    if row.intervals == Basis::Exact {
        return format!("{} % ({sign}{difference}, exact)", signed(change.value));
    }
    format!(
        "{} % ({sign}{difference}; 95 % interval {} … {} %)",
        signed(change.value),
        signed(change.low),
        signed(change.high)
    )
}
