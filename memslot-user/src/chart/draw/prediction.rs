//! Predicted against observed latency, a section for each recording.

use super::{Job, QUANTILES, engine_look, engine_name, time_axis};
use crate::chart::page::Key;
use crate::chart::palette::KERNEL;
use crate::chart::rows::{Mark, Row, Rows, Section};
use crate::chart::series::prediction::{self, Part};
use crate::chart::{Picture, palette, text};
use crate::replay::{Prediction, Quantiles};

pub(crate) fn draw(job: &Job<'_>) -> Picture {
    let title = format!("What {} would take with another search", job.subject());
    let parts = prediction::series(job.digests, job.probe);
    let timed = if parts.iter().any(|part| !part.same_clock.is_empty()) {
        " By slope: each of the engine's nodes at the cost of one of the kernel's. Same clock: the engine's search at its \
         own time, measured by the recording's clock."
    } else {
        ""
    };
    let subtitle = format!(
        "Latency with each engine's search in place of the kernel's, whose cost is that of the line fitted to the observed \
         calls, beside what was observed. Changes are against the observed median.{timed}"
    );
    let mut page = job.page(title, &subtitle);
    if parts.is_empty() {
        return job.empty(&page, job.no_events());
    }
    if parts.iter().all(|part| part.engines.is_empty()) && parts.len() == 1 {
        let reason = parts.first().and_then(|part| part.note.clone()).unwrap_or_default();
        return job.empty(&page, reason);
    }
    page.legend = vec![
        (Key::Marker(KERNEL, false), "median".into()),
        (Key::Marker(KERNEL, true), "90th percentile".into()),
        (Key::Bar(palette::GREY), "95 % interval of the median".into()),
        (Key::Tick(None), "observed median".into()),
        (Key::Tick(QUANTILES[1].1), "observed 90th percentile".into()),
    ];
    let (low, high) = prediction::range(&parts);
    let rows = Rows {
        axis: time_axis(low, high),
        axis_name: "latency of one call (logarithmic)".into(),
        columns: ["median", "95 % interval", "change", "p90"].map(str::to_owned).into(),
        sections: parts.iter().map(section).collect(),
        row_height: (34.0, 80.0),
    };
    rows.draw(&page, job.size.width, job.size.height)
}

fn section(part: &Part) -> Section {
    let observed = part.observed;
    let lines = [
        Mark::Tick { at: observed.p50, dash: None, name: "" },
        Mark::Tick { at: observed.p90, dash: QUANTILES[1].1, name: "" },
    ];
    let kernel = Row {
        label: engine_name(None),
        colour: KERNEL.colour,
        cells: vec![text::time(observed.p50), "–".into(), "–".into(), text::time(observed.p90)],
        marks: lines.iter().cloned().chain(points(KERNEL, &observed)).collect(),
    };
    let predictions = part.engines.iter().flat_map(|(engine, _)| {
        part.of_engine(engine).into_iter().map(move |(name, prediction)| (engine, name, prediction))
    });
    let engines = predictions.map(|(engine, name, prediction)| {
        let mut row = row(engine, name, prediction, observed.p50);
        row.marks.splice(0..0, lines.iter().cloned());
        row
    });
    Section {
        heading: part.recording.clone(),
        note: part.note.clone(),
        rows: std::iter::once(kernel).chain(engines).collect(),
    }
}

fn points(look: palette::Look, quantiles: &Quantiles) -> [Mark; 3] {
    [
        Mark::Range {
            from: quantiles.p50,
            to: quantiles.p90,
            thickness: 2.5,
            colour: look.colour,
            alpha: 1.0,
        },
        Mark::Point { at: quantiles.p90, look, hollow: true },
        Mark::Point { at: quantiles.p50, look, hollow: false },
    ]
}

fn row(engine: &str, name: String, prediction: &Prediction, observed: f64) -> Row {
    let look = engine_look(Some(engine));
    let median = prediction.median_ns;
    let mut marks = vec![Mark::Range {
        from: median.low,
        to: median.high,
        thickness: 22.0,
        colour: look.colour,
        alpha: 0.35,
    }];
    marks.extend(points(look, &prediction.latency_ns));
    let change = if observed > 0.0 {
        text::signed_percent((prediction.latency_ns.p50 / observed - 1.0) * 100.0)
    } else {
        "–".into()
    };
    let cells = vec![
        text::time(prediction.latency_ns.p50),
        format!("{} – {}", text::time(median.low), text::time(median.high)),
        change,
        text::time(prediction.latency_ns.p90),
    ];
    let label = if prediction.extrapolates { format!("{name} (extrapolates)") } else { name };
    Row { label, colour: look.colour, cells, marks }
}
