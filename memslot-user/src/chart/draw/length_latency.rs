//! Latency against search length, a panel for each recording.

use super::{Job, time_axis};
use crate::chart::page::Key;
use crate::chart::palette::{BLUE, Look, Marker, VERMILLION};
use crate::chart::panels::{Item, Panel, Panels};
use crate::chart::scale::Axis;
use crate::chart::series::length_latency::{self as series, Part};
use crate::chart::{Picture, text};
use crate::model::Probe;

const FIT: Look = Look { colour: VERMILLION, shape: Marker::Circle, dash: None };
/// The fit beyond the lengths that it rests on.
const BEYOND: Look = Look { dash: Some((8.0, 5.0)), ..FIT };

pub(crate) fn draw(job: &Job<'_>) -> Picture {
    let title = format!("What a step of the search costs in {}", job.subject());
    let zero = match job.probe {
        Probe::PageFault => " (0 = the last-used slot answered, which the line leaves out)",
        Probe::Ple | Probe::Translate => "",
    };
    let subtitle = format!(
        "Latency by the number of nodes that the kernel's own search visited{zero}. Above each box: its number of \
         calls, where there is room."
    );
    let mut page = job.page(title, &subtitle);
    let parts = series::series(job.digests, job.probe);
    if parts.is_empty() {
        return job.empty(&page, job.no_events());
    }
    page.legend = vec![(Key::Bar(BLUE), "first to third quartile, line: median".into())];
    if parts.iter().any(|part| part.fit.is_some()) {
        page.legend.push((Key::Line(FIT), "fitted line (dashed: extrapolated)".into()));
        page.legend.push((Key::Bar(VERMILLION), "band of the parameters' 95 % intervals".into()));
    }
    let longest = parts.iter().flat_map(|part| &part.columns).map(|column| column.length).max().unwrap_or(0);
    let (low, high) = series::range(&parts);
    let y = time_axis(low, high);
    let panels = Panels {
        columns: if parts.len() == 4 { 2 } else { parts.len().min(3) },
        least_height: 520.0,
        panels: parts.iter().map(|part| panel(part, longest, &y)).collect(),
    };
    panels.draw(&page, job.size.width, job.size.height)
}

/// Lengths up to this lie on an even axis, on which the fitted line is straight.
pub(super) const EVEN: u32 = 64;

fn panel(part: &Part, longest: u32, y: &Axis) -> Panel {
    let x = if longest <= EVEN { Axis::whole_numbers(longest) } else { Axis::length(longest) };
    let mut items: Vec<Item> = part
        .columns
        .iter()
        .map(|column| Item::Quartiles {
            at: f64::from(column.length),
            quartiles: column.quartiles,
            half: 0.3,
            colour: BLUE,
            count: text::count(column.count),
            weight: column.count,
        })
        .collect();
    if let Some(fit) = &part.fit {
        let (from, to) = (f64::from(fit.range.0), f64::from(fit.range.1.max(fit.range.0)));
        let points =
            |from: f64, to: f64| (0..=32_u8).map(move |step| from + (to - from) * f64::from(step) / 32.0);
        let line = |from, to| points(from, to).map(|x| (x, series::band(fit, x).1)).collect();
        let band = points(from, to).map(|x| {
            let (low, _, high) = series::band(fit, x);
            (x, low, high)
        });
        items.insert(0, Item::Band(band.collect(), VERMILLION));
        let end = x.range().1;
        if end > to {
            items.push(Item::Line { points: line(to, end), look: BEYOND, width: 2.0, marked: false });
        }
        items.push(Item::Line { points: line(from, to), look: FIT, width: 3.0, marked: false });
    }
    Panel {
        heading: part.recording.clone(),
        note: part.note.clone(),
        x,
        x_name: if longest <= EVEN { "nodes visited" } else { "nodes visited (logarithmic, from 0)" }.into(),
        y: y.clone(),
        y_name: "latency of one call (logarithmic)".into(),
        items,
    }
}
