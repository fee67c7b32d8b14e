//! What the runs before foretold of another search, and what the kernel after did.

use super::{Job, SIDES};
use crate::chart::Picture;
use crate::chart::page::Key;
use crate::chart::palette::{GREEN, Look, Marker, PURPLE};
use crate::chart::panels::{Item, Panel, Panels};
use crate::chart::scale::Axis;
use crate::compare::{Foretold, Interval};

/// Looks of the two ways to foretell.
const WAYS: [(&str, Look); 2] = [
    ("foretold by slope", Look { colour: PURPLE, shape: Marker::Up, dash: Some((2.0, 3.0)) }),
    ("foretold by clock", Look { colour: GREEN, shape: Marker::Diamond, dash: Some((6.0, 3.0)) }),
];

pub(super) fn draw(job: &Job<'_>) -> Option<Picture> {
    let rows: Vec<&Foretold> = job.comparison.foretold.iter().filter(|row| row.probe == job.probe).collect();
    let engine = rows.first()?.engine;
    let panels: Vec<Panel> = ["p50", "p90", "p99"]
        .into_iter()
        .filter_map(|figure| {
            let rows: Vec<&Foretold> = rows.iter().filter(|row| row.figure == figure).copied().collect();
            panel(job, figure, &rows)
        })
        .collect();
    let mut page = job.page(
        format!("{} with {engine}: foretold and observed", job.subject()),
        "From the runs before alone; with 95 % intervals where they are known.",
    );
    page.legend.extend(WAYS.map(|(name, look)| (Key::Line(look), name.to_owned())));
    let columns = panels.len().clamp(1, 3);
    job.draw(&Panels { panels, columns, least_height: 420.0 }, &page)
}

fn panel(job: &Job<'_>, figure: &str, rows: &[&Foretold]) -> Option<Panel> {
    let sizes: Vec<u64> = rows.iter().map(|row| row.size).collect();
    let observed = |value: f64| Some(Interval { value, low: value, high: value });
    type Of = fn(&Foretold) -> Option<Interval>;
    let ways: [Of; 2] = [|row| row.by_slope, |row| row.by_clock];
    let mut items = Vec::new();
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    let mut series = |look: Look, values: Vec<(f64, Interval)>| {
        for (at, one) in &values {
            (low, high) = (low.min(one.low), high.max(one.high));
            if one.low < one.high {
                items.push(Item::Interval { at: *at, low: one.low, high: one.high, colour: look.colour });
            }
        }
        let points = values.into_iter().map(|(at, one)| (at, one.value)).collect();
        items.push(Item::Line { points, look, width: 2.5, marked: true });
    };
    let values = |of: &dyn Fn(&Foretold) -> Option<Interval>| {
        rows.iter().filter_map(|row| Some((row.size as f64, of(row)?))).collect::<Vec<_>>()
    };
    series(SIDES[0].1, values(&|row| observed(row.before)));
    series(SIDES[1].1, values(&|row| observed(row.after)));
    for ((_, look), of) in WAYS.into_iter().zip(ways) {
        series(look, values(&of));
    }
    let (y, y_name) = job.latencies("latency", low, high);
    Some(Panel {
        heading: figure.to_owned(),
        note: None,
        x: Axis::number(*sizes.first()?, *sizes.last()?).at_values(&sizes),
        x_name: format!("number of {} (logarithmic)", job.things()),
        y,
        y_name,
        items,
    })
}
