//! All differences of a probe, relative, with their intervals.

use super::Job;
use crate::chart::palette::{GREEN, GREY, Look, Marker, SOFT, VERMILLION};
use crate::chart::rows::{Mark, Row as ChartRow, Rows, Section};
use crate::chart::scale::Axis;
use crate::chart::{Picture, text};
use crate::compare::{Basis, Row, Verdict, sized};
use plotters::style::RGBColor;

fn colour(row: &Row) -> RGBColor {
    match row.verdict {
        Verdict::Slower => VERMILLION,
        Verdict::Faster => GREEN,
        Verdict::NoDifference => SOFT,
        Verdict::NotComparable | Verdict::TooFewRuns => GREY,
    }
}

pub(super) fn draw(job: &Job<'_>) -> Option<Picture> {
    let rows: Vec<&Row> = job
        .comparison
        .comparisons
        .iter()
        .filter(|row| row.probe == job.probe && row.change.is_some())
        .collect();
    if rows.is_empty() {
        return None;
    }
    let ends = rows.iter().filter_map(|row| row.change).flat_map(|change| [change.low, change.high]);
    let threshold = job.comparison.threshold;
    let (low, high) = ends.fold((-threshold, threshold), |(low, high), x| (low.min(x), high.max(x)));
    let mut page = job.page(
        format!("What changed in {}", job.subject()),
        &format!(
            "Relative change of each figure with its 95 % interval, left faster, right slower. The grey strip is the \
             threshold of {}, within which a change is of no account. Hollow: too few runs, or not comparable.",
            text::share(threshold)
        ),
    );
    page.legend = Vec::new();
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.size).collect();
    sizes.dedup();
    let sections = sizes.iter().map(|size| Section {
        heading: sized(job.probe, *size),
        note: None,
        rows: rows.iter().filter(|row| row.size == *size).map(|row| line(row, threshold)).collect(),
    });
    let chart = Rows {
        axis: Axis::between(low * 100.0, high * 100.0, |value| format!("{} %", text::figure(value))),
        axis_name: "change, after against before".into(),
        columns: ["change", "p (adjusted)", "verdict"].map(str::to_owned).into(),
        sections: sections.collect(),
        row_height: (30.0, 30.0),
    };
    Some(chart.draw(&page, job.size.width, job.size.height))
}

fn line(row: &Row, threshold: f64) -> ChartRow {
    let colour = colour(row);
    let mut marks = vec![Mark::Range {
        from: -threshold * 100.0,
        to: threshold * 100.0,
        thickness: 30.0,
        colour: GREY,
        alpha: 0.15,
    }];
    let mut cell = "–".into();
    if let Some(change) = row.change {
        if row.intervals != Basis::Exact {
            let (from, to) = (change.low * 100.0, change.high * 100.0);
            marks.push(Mark::Range { from, to, thickness: 5.0, colour, alpha: 0.6 });
        }
        let look = Look { colour, shape: Marker::Diamond, dash: None };
        let hollow = matches!(row.verdict, Verdict::NotComparable | Verdict::TooFewRuns);
        marks.push(Mark::Point { at: change.value * 100.0, look, hollow });
        cell = crate::compare::signed(change.value) + " %";
    }
    let p = match (row.intervals, row.p_adjusted) {
        (Basis::Exact, _) => "exact".into(),
        (_, Some(p)) if p < 0.0001 => "<0.0001".into(),
        (_, Some(p)) => format!("{p:.4}"),
        (_, None) => "–".into(),
    };
    ChartRow {
        label: format!("{}, {}", row.kind_name, row.figure.replace('_', " ")),
        colour,
        cells: vec![cell, p, row.verdict.to_string()],
        marks,
    }
}
