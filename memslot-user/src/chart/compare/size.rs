//! Median latency against the number of slots, regions or vCPUs.

use super::{Job, SIDES};
use crate::chart::Picture;
use crate::chart::panels::{Item, Panel, Panels};
use crate::chart::scale::Axis;
use crate::compare::Row;

pub(super) fn draw(job: &Job<'_>) -> Option<Picture> {
    let medians: Vec<&Row> = job
        .comparison
        .comparisons
        .iter()
        .filter(|row| row.probe == job.probe && row.figure == "p50")
        .collect();
    let mut kinds: Vec<(&str, &str)> = medians.iter().map(|row| (row.kind, row.kind_name)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let things = job.things();
    let panels: Vec<Panel> = kinds
        .into_iter()
        .filter_map(|(kind, name)| {
            let rows: Vec<&Row> = medians.iter().filter(|row| row.kind == kind).copied().collect();
            panel(job, name, &rows)
        })
        .collect();
    if panels.is_empty() {
        return None;
    }
    let page = job.page(
        format!("What more {things} cost {}, before and after", job.subject()),
        "Median latency over runs, with 95 % intervals.",
    );
    let columns = panels.len().min(3);
    job.draw(&Panels { panels, columns, least_height: 420.0 }, &page)
}

/// Nothing where there is one size only.
fn panel(job: &Job<'_>, name: &str, rows: &[&Row]) -> Option<Panel> {
    let sizes: Vec<u64> = rows.iter().map(|row| row.size).collect();
    if sizes.len() < 2 {
        return None;
    }
    let mut items = Vec::new();
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for (side, (_, look)) in SIDES.into_iter().enumerate() {
        let estimates: Vec<_> = rows
            .iter()
            .filter_map(|row| Some((row.size as f64, if side == 0 { row.before } else { row.after }?)))
            .collect();
        for (at, one) in &estimates {
            (low, high) = (low.min(one.low), high.max(one.high));
            items.push(Item::Interval { at: *at, low: one.low, high: one.high, colour: look.colour });
        }
        let points = estimates.iter().map(|(at, one)| (*at, one.value)).collect();
        items.push(Item::Line { points, look, width: 2.5, marked: true });
    }
    let (y, y_name) = job.latencies("median latency", low, high);
    Some(Panel {
        heading: name.to_owned(),
        note: None,
        x: Axis::number(*sizes.first()?, *sizes.last()?).at_values(&sizes),
        x_name: format!("number of {} (logarithmic)", job.things()),
        y,
        y_name,
        items,
    })
}
