//! Latency distribution by kind of call, a row for each recording.

use super::{Job, QUANTILES, float};
use crate::chart::page::Key;
use crate::chart::rows::{Mark, Row, Rows, Section};
use crate::chart::scale::Axis;
use crate::chart::series::latency::{self, Series};
use crate::chart::{Picture, palette, text};
use crate::model::Probe;

pub(crate) fn draw(job: &Job<'_>) -> Picture {
    let title = format!("How long {} take", job.subject());
    let by = match job.probe {
        Probe::PageFault => "by what the search for the memory slot came to",
        Probe::Ple => "by what the yields of the exit came to",
        Probe::Translate => "by the table that was searched",
    };
    let subtitle = format!(
        "Distribution of wall time inside the kernel function, {by}. Each row is scaled to its own tallest bar."
    );
    let mut page = job.page(title, &subtitle);
    let Some(series) = latency::series(job.digests, job.probe) else {
        return job.empty(&page, job.no_events());
    };
    page.legend = QUANTILES
        .iter()
        .zip(["median (p50)", "90th percentile (p90)", "99th percentile (p99)"])
        .map(|((_, dash), name)| (Key::Tick(*dash), name.to_owned()))
        .collect();
    rows(&series).draw(&page, job.size.width, job.size.height)
}

fn rows(series: &Series) -> Rows {
    let axis = Axis::time(series.range.0, series.range.1);
    let sections = series
        .groups
        .iter()
        .map(|(group, rows)| Section {
            heading: group.name().to_owned(),
            note: None,
            rows: rows.iter().map(|row| row_of(row, palette::group(*group))).collect(),
        })
        .collect();
    Rows {
        axis,
        axis_name: "latency of one call (logarithmic)".into(),
        columns: ["tallest bar", "p50", "p90", "p99", "max", "calls"].map(str::to_owned).into(),
        sections,
        row_height: (68.0, 180.0),
    }
}

fn row_of(row: &latency::Row, colour: plotters::style::RGBColor) -> Row {
    let tallest = row.bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    let bars = row
        .bins
        .iter()
        .map(|bin| (float(bin.from), float(bin.to), float(bin.count) / float(tallest.max(1))))
        .collect();
    let mut marks = vec![Mark::Bars(bars, colour)];
    // p99 before p90: where only two names fit, the outer ones say more.
    for place in [0, 2, 1] {
        if let (Some((name, dash)), Some(at)) = (QUANTILES.get(place), row.quantiles.get(place)) {
            marks.push(Mark::Tick { at: *at, dash: *dash, name });
        }
    }
    if row.beyond > 0 {
        marks.push(Mark::Words(format!("{} beyond the axis", text::count(row.beyond))));
    }
    let mut cells = vec![super::of(tallest, row.count)];
    cells.extend(row.quantiles.into_iter().chain([float(row.max)]).map(text::time));
    cells.push(text::count(row.count));
    Row { label: row.recording.clone(), colour, cells, marks }
}
