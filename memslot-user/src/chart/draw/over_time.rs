//! Latency over time: a heat map for each recording, with a ribbon above it where calls were lost.

use super::heat::Heat;
use super::{Job, float};
use crate::chart::canvas::{Anchor, Canvas, Rect};
use crate::chart::page::{BODY, HEADING, Key, SMALL};
use crate::chart::palette::{AXIS, GREY, SHEET_GRID, VERMILLION, WHITE};
use crate::chart::scale::Axis;
use crate::chart::{Picture, text};
use crate::digest::{Digest, OverTime, Source};

/// Words above a map; the ribbon; the map; the axis below.
const HEAD: f64 = 38.0;
const RIBBON: f64 = 16.0;
const MAP: (f64, f64) = (190.0, 420.0);
const FOOT: f64 = 66.0;

pub(crate) fn draw(job: &Job<'_>) -> Picture {
    let having: Vec<&&Digest> =
        job.digests.iter().filter(|digest| !digest.probe(job.probe).over_time.is_empty()).collect();
    let maps = || having.iter().map(|digest| &digest.probe(job.probe).over_time);
    let lossy = maps().any(|map| !map.lost().is_empty());
    let mut subtitle =
        "Each cell is a span of time and of latency; the darker, the more calls began then and took so long."
            .to_owned();
    if lossy {
        subtitle +=
            " The ribbon above says when calls were lost: what is missing there is missing from the map.";
    }
    let mut page = job.page(format!("When {} take how long", job.subject()), &subtitle);
    if having.is_empty() {
        return job.empty(&page, job.no_events());
    }
    if lossy {
        page.legend =
            vec![(Key::Solid(VERMILLION), "calls lost".into()), (Key::Solid(GREY), "none lost".into())];
    }
    let heat = Heat::new(maps().flat_map(OverTime::cells).map(|cell| u64::from(cell.2)).max().unwrap_or(1));
    let low = maps().flat_map(OverTime::cells).map(|cell| cell.1.0).min().unwrap_or(0);
    let high = maps().flat_map(OverTime::cells).map(|cell| cell.1.1).max().unwrap_or(1);
    let latency = Axis::time(low, high);

    let fixed = HEAD + RIBBON + FOOT;
    let each = float(having.len() as u64);
    let (mut canvas, area) = page.begin(job.size.width, job.size.height, Heat::KEY + each * (fixed + MAP.0));
    heat.key(&mut canvas, area, "calls in a cell");
    let tall = ((area.height() - Heat::KEY) / each - fixed).clamp(MAP.0, MAP.1);
    let mut top = area.top + Heat::KEY;
    for digest in &having {
        let bottom = top + fixed + tall;
        one(&mut canvas, job, digest, (heat, &latency), Rect { top, bottom, ..area });
        top = bottom;
    }
    canvas.finish()
}

fn one(canvas: &mut Canvas, job: &Job<'_>, digest: &Digest, (heat, latency): (Heat, &Axis), place: Rect) {
    let figures = digest.probe(job.probe);
    let map = &figures.over_time;
    let (start, end) = map.extent();
    let lost: u64 = map.lost().iter().map(|span| span.lost).sum();
    let lost = if lost > 0 { format!(", {} lost", text::count(lost)) } else { String::new() };
    let calls = text::counted(figures.latency.count(), "call");
    let source = match figures.source {
        Source::Events => "",
        Source::Histogram => ", from the histograms: no finer than a second, each bucket at its mean",
    };
    let heading = format!("{}: {calls}{lost}{source}", digest.title(job.probe));
    canvas.text(place.left, place.top + 20.0, Anchor::Left, HEADING, &HEADING.fit(&heading, place.width()));

    let labels = latency.ticks.iter().map(|tick| SMALL.width(&tick.label)).fold(0.0, f64::max);
    let plot = Rect {
        left: place.left + labels + 12.0,
        right: place.right - 4.0,
        top: place.top + HEAD + RIBBON,
        bottom: place.bottom - FOOT,
    };
    let span = float(end.saturating_sub(start)).max(1.0);
    let x = |time: u64| plot.x((float(time.saturating_sub(start)) / span).clamp(0.0, 1.0));

    // Cells keep their own ground, also where a page is dark.
    canvas.sheet(plot);
    for (tick, _) in latency.labelled(plot.height(), 6.0, SMALL.size, |_| SMALL.size) {
        let y = plot.y(latency.at(tick.value));
        canvas.horizontal((plot.left, plot.right), y, 1.0, SHEET_GRID);
        canvas.text_at(plot.left - 8.0, y, Anchor::Right, SMALL, &tick.label);
    }
    let mut cells: Vec<_> = map.cells().map(|cell| (heat.shade(cell.2.into()), cell)).collect();
    // By shade: an SVG has one element for each.
    cells.sort_by_key(|(shade, _)| *shade);
    for (shade, ((from, to), (low, high), _)) in cells {
        let rect = Rect {
            left: x(from),
            right: x(to).max(x(from) + 1.0),
            top: plot.y(latency.at(float(high))),
            bottom: plot.y(latency.at(float(low))),
        };
        canvas.fill(rect, Heat::colour(shade), 1.0);
    }

    let ribbon = Rect { top: plot.top - RIBBON, bottom: plot.top - 6.0, ..plot };
    if !map.lost().is_empty() {
        canvas.fill(ribbon, GREY, 1.0);
        canvas.fill(Rect { top: ribbon.bottom, bottom: plot.top, ..plot }, WHITE, 1.0);
        for span in map.lost() {
            let (left, right) = (x(span.from), x(span.to));
            canvas.fill(Rect { left, right: right.max(left + 3.0), ..ribbon }, VERMILLION, 1.0);
        }
    }
    axes(canvas, plot, span);
}

fn axes(canvas: &mut Canvas, plot: Rect, span: f64) {
    let axis = Axis::even(span / 1.04, text::tick);
    for (tick, middle) in axis.labelled(plot.width(), 12.0, 4.0, |label| SMALL.width(label)) {
        let x = plot.x(axis.at(tick.value));
        canvas.vertical(x, (plot.bottom, plot.bottom + 6.0), 1.0, AXIS);
        canvas.text(plot.left + middle, plot.bottom + 24.0, Anchor::Middle, SMALL, &tick.label);
    }
    canvas.horizontal((plot.left, plot.right), plot.bottom, 1.5, AXIS);
    canvas.vertical(plot.left, (plot.top, plot.bottom), 1.5, AXIS);
    canvas.text(
        plot.x(0.5),
        plot.bottom + 50.0,
        Anchor::Middle,
        BODY,
        "time since the recording's first call",
    );
}
