//! The shift function: by how much each quantile differs.

use super::Job;
use crate::chart::page::Key;
use crate::chart::palette::{BLACK, BLUE, Look, Marker, SOFT};
use crate::chart::panels::{Item, Panel, Panels};
use crate::chart::scale::Axis;
use crate::chart::{Picture, text};
use crate::compare::{Shift, sized};

const LINE: Look = Look { colour: BLUE, shape: Marker::Circle, dash: None };
const ZERO: Look = Look { colour: SOFT, shape: Marker::Circle, dash: Some((4.0, 4.0)) };

pub(super) fn draw(job: &Job<'_>) -> Option<Picture> {
    let shifts = job.comparison.shifts.iter().filter(|shift| shift.probe == job.probe);
    let panels: Vec<Panel> = shifts.take(12).map(|shift| panel(shift, job.comparison.exact)).collect();
    if panels.is_empty() {
        return None;
    }
    let mut page = job.page(
        format!("By how much {} differ, quantile by quantile", job.subject()),
        "Difference of each quantile, after less before: above the line slower, below it faster. The band holds the \
         whole curve at 95 %; without a band the figures are exact.",
    );
    page.legend = vec![
        (Key::Series(LINE), "shift of the runs' quantiles".into()),
        (Key::Bar(BLUE), "simultaneous band at 95 %".into()),
        (Key::Line(Look { colour: BLACK, ..ZERO }), "no difference".into()),
    ];
    let columns = panels.len().min(3);
    job.draw(&Panels { panels, columns, least_height: 420.0 }, &page)
}

fn panel(shift: &Shift, exact: bool) -> Panel {
    let ends = shift.levels.iter().flat_map(|level| [level.low, level.high, 0.0]);
    let (low, high) = ends.fold((0.0_f64, 0.0_f64), |(low, high), y| (low.min(y), high.max(y)));
    let place = |level: f64| level * 100.0;
    let band: Vec<(f64, f64, f64)> =
        shift.levels.iter().map(|level| (place(level.level), level.low, level.high)).collect();
    let points = shift.levels.iter().map(|level| (place(level.level), level.difference)).collect();
    let mut items =
        vec![Item::Line { points: vec![(0.0, 0.0), (100.0, 0.0)], look: ZERO, width: 1.5, marked: false }];
    if band.iter().any(|(_, low, high)| low < high) {
        items.push(Item::Band(band, BLUE));
    }
    items.push(Item::Line { points, look: LINE, width: 2.0, marked: true });
    Panel {
        heading: format!("{}, {}", shift.kind_name, sized(shift.probe, shift.size)),
        note: None,
        x: Axis::even(100.0, |value| format!("{} %", text::figure(value))),
        x_name: "share of the calls below".into(),
        y: Axis::between(low, high, if exact { text::figure } else { text::tick }),
        y_name: if exact { "instructions, after less before" } else { "difference, after less before" }
            .into(),
        items,
    }
}
