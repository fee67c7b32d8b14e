//! The comparison as Markdown that stays legible as plain text, for a patch's cover letter.

use super::Verdict;
use super::outcome::{Comparison, Row};
use super::predict;
use super::text::{cells, conclusion, control_words, figure_name, legend, runs};
use std::fmt::Write as _;
use std::ops::Range;

/// The whole comparison; a table for each probe and size.
#[must_use]
pub fn markdown(comparison: &Comparison) -> String {
    let mut out = String::new();
    for line in conclusion(comparison) {
        let _ = writeln!(out, "- {line}");
    }
    let _ = writeln!(
        out,
        "\nBefore: Linux {}, {} runs. After: Linux {}, {} runs.",
        comparison.before.kernels.join(" and "),
        comparison.before.runs.len(),
        comparison.after.kernels.join(" and "),
        comparison.after.runs.len()
    );
    for (probe, size) in comparison.strata() {
        let rows: Vec<&Row> =
            comparison.comparisons.iter().filter(|row| (row.probe, row.size) == (probe, size)).collect();
        if let Some(row) = rows.first() {
            let _ = writeln!(out, "\n{} ({}):\n", row.stratum(), runs(row));
        }
        out.push_str(&table(&rows));
    }
    if let Some(heading) = predict::heading(&comparison.foretold) {
        let mut lines = vec![predict::HEADINGS.map(str::to_owned)];
        lines.extend(comparison.foretold.iter().map(predict::cells));
        let _ = write!(out, "\n{heading}:\n\n{}", grid(&lines, 2..predict::HEADINGS.len()));
    }
    let mut notes = comparison.notes.clone();
    notes.extend(legend(comparison).into_iter().map(|line| line.replace('*', "\\*")));
    notes.extend(
        comparison
            .settings
            .iter()
            .map(|setting| format!("`{}`: {} before, {} after", setting.name, setting.before, setting.after)),
    );
    notes.extend(comparison.control.as_ref().map(control_words));
    if !notes.is_empty() {
        out.push('\n');
    }
    for note in notes {
        let _ = writeln!(out, "- {note}");
    }
    out
}

/// Columns as wide as their widest cell, so that mail readers show a table, too.
fn table(rows: &[&Row]) -> String {
    let heading = ["kind", "figure", "before", "after", "change", "p", "verdict"].map(str::to_owned);
    let mut lines = vec![heading];
    for row in rows {
        let [before, after, change, p, _, _] = cells(row);
        let verdict = match row.verdict {
            Verdict::Slower | Verdict::Faster => format!("**{}**", row.verdict),
            verdict => verdict.to_string(),
        };
        lines.push([row.kind_name.to_owned(), figure_name(row), before, after, change, p, verdict]);
    }
    // The mark of an interval is no emphasis.
    let lines: Vec<[String; 7]> =
        lines.into_iter().map(|line| line.map(|cell| cell.replace(" *", " \\*"))).collect();
    grid(&lines, 2..6)
}

/// A heading and rows; the columns of figures are set to the right.
fn grid<const COLUMNS: usize>(lines: &[[String; COLUMNS]], figures: Range<usize>) -> String {
    let mut widths = [0; COLUMNS];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for (place, line) in lines.iter().enumerate() {
        for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            let _ = if figures.contains(&column) {
                write!(out, "| {pad}{cell} ")
            } else {
                write!(out, "| {cell}{pad} ")
            };
        }
        out.push_str("|\n");
        if place == 0 {
            for (column, width) in widths.iter().enumerate() {
                let end = if figures.contains(&column) { ":" } else { "-" };
                let _ = write!(out, "|{}{end}", "-".repeat(width + 1));
            }
            out.push_str("|\n");
        }
    }
    out
}
