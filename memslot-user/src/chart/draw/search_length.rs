//! Search length observed against each engine's, a section for each recording.

use super::{Job, engine_look, engine_name, float};
use crate::chart::page::Key;
use crate::chart::rows::{Mark, Row, Rows, Section};
use crate::chart::scale::Axis;
use crate::chart::series::search_length as lengths;
use crate::chart::{Picture, palette, text};

pub(crate) fn draw(job: &Job<'_>) -> Picture {
    let title = format!("How far {} search for their {}", job.subject(), job.searched());
    let subtitle = "Nodes or elements that one look-up visits: the kernel's own search as observed, and each engine \
                    over the same look-ups. The area of a bar is its share of the row's look-ups; each row is \
                    scaled to its own tallest bar.";
    let mut page = job.page(title, subtitle);
    let parts = lengths::series(job.digests, job.probe);
    if parts.is_empty() {
        return job.empty(&page, job.no_events());
    }
    page.legend = vec![(Key::Tick(None), "mean".into())];
    let axis = Axis::length(lengths::longest(&parts));
    let sections = parts
        .iter()
        .map(|part| Section {
            heading: part.recording.clone(),
            note: part.note.clone(),
            rows: part.rows.iter().map(|one| row(one, &axis)).collect(),
        })
        .collect();
    let rows = Rows {
        axis,
        axis_name: "nodes or elements visited (logarithmic, from 0)".into(),
        columns: ["mean", "median", "p99", "max", "look-ups"].map(str::to_owned).into(),
        sections,
        row_height: (50.0, 110.0),
    };
    rows.draw(&page, job.size.width, job.size.height)
}

fn row(row: &lengths::Row, axis: &Axis) -> Row {
    let look = engine_look(row.engine.as_deref());
    // A whole number reaches half way to its neighbours.
    let bars = row.bins.iter().map(|bin| {
        let (from, to) = (float(bin.from) - 0.5, float(bin.to) - 0.5);
        (from, to, float(bin.count) / (axis.at(to) - axis.at(from)).max(1e-9))
    });
    let tallest = bars.clone().map(|bar| bar.2).fold(f64::MIN_POSITIVE, f64::max);
    let bars = bars.map(|(from, to, height)| (from, to, height / tallest)).collect();
    let mut cells = vec![text::figure(row.mean)];
    cells.extend(row.quantiles.iter().chain([&row.max]).map(|length| text::count(u64::from(*length))));
    cells.push(text::count(row.lookups));
    // The mean is a black line, which black bars would hide.
    let colour = if row.engine.is_none() { palette::GREY } else { look.colour };
    Row {
        label: engine_name(row.engine.as_deref()),
        colour: look.colour,
        cells,
        marks: vec![Mark::Bars(bars, colour), Mark::Tick { at: row.mean, dash: None, name: "" }],
    }
}
