//! What the fitted line leaves unexplained, a panel for each recording and class of events.

use super::Job;
use crate::chart::page::Key;
use crate::chart::palette::{BLUE, Look, Marker, VERMILLION};
use crate::chart::panels::{Item, Panel, Panels};
use crate::chart::scale::Axis;
use crate::chart::series::residuals::{self as series, Part};
use crate::chart::{Picture, text};

const ZERO: Look = Look { colour: VERMILLION, shape: Marker::Circle, dash: None };

pub(crate) fn draw(job: &Job<'_>) -> Picture {
    let title = format!("How far {} lie from the line that predictions rest on", job.subject());
    let subtitle = "Latency less the fitted line, by nodes visited, of the fifth of the events that the line was not fitted \
                    to. The band is where 95 % of them should lie. Above each box: its number of calls, where there is \
                    room.";
    let mut page = job.page(title, subtitle);
    let parts = series::series(job.digests, job.probe);
    if parts.is_empty() {
        return job.empty(&page, job.no_events());
    }
    if parts.iter().any(|part| !part.lengths.is_empty()) {
        page.legend = vec![
            (Key::Bar(BLUE), "first to third quartile, line: median".into()),
            (Key::Line(Look { colour: BLUE, ..ZERO }), "2.5th to 97.5th percentile".into()),
            (Key::Line(ZERO), "the line".into()),
            (Key::Bar(VERMILLION), "95 % interval, from the events of the fit".into()),
        ];
    }
    let panels = Panels {
        columns: if parts.len() == 4 { 2 } else { parts.len().min(3) },
        least_height: 500.0,
        panels: parts.iter().map(panel).collect(),
    };
    panels.draw(&page, job.size.width, job.size.height)
}

fn panel(part: &Part) -> Panel {
    let longest = part.lengths.iter().map(|length| length.length).max().unwrap_or(0);
    let x = if longest <= super::length_latency::EVEN {
        Axis::whole_numbers(longest)
    } else {
        Axis::length(longest)
    };
    let (low, high) = series::range(part);
    let mut items = Vec::new();
    if !part.lengths.is_empty() {
        let ends = [x.range().0, x.range().1];
        items.push(Item::Band(ends.map(|x| (x, part.interval.0, part.interval.1)).into(), VERMILLION));
        items.push(Item::Line {
            points: ends.map(|x| (x, 0.0)).into(),
            look: ZERO,
            width: 2.0,
            marked: false,
        });
    }
    for length in &part.lengths {
        let at = f64::from(length.length);
        let [least, first, median, third, most] = length.quantiles;
        items.push(Item::Interval { at, low: least, high: most, colour: BLUE });
        items.push(Item::Quartiles {
            at,
            quartiles: [first, median, third],
            half: 0.3,
            colour: BLUE,
            count: text::count(length.held_out),
            weight: length.held_out,
        });
    }
    Panel {
        heading: part.heading.clone(),
        note: Some(part.note.clone()),
        x,
        x_name: if longest <= super::length_latency::EVEN {
            "nodes visited"
        } else {
            "nodes visited (logarithmic, from 0)"
        }
        .into(),
        y: Axis::signed(low, high, text::signed_tick),
        y_name: "observed less fitted".into(),
        items,
    }
}
