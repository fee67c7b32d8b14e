//! Charts of panels side by side, each with two axes.

use super::Picture;
use super::canvas::{Anchor, Canvas, Rect};
use super::page::{BODY, HEADING, Page, SMALL};
use super::palette::{AXIS, GRID, INK, Look};
use super::scale::Axis;
use plotters::style::RGBColor;

/// Something drawn in a panel, in the axes' values.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A line through points, with markers if `marked`.
    Line { points: Vec<(f64, f64)>, look: Look, width: f64, marked: bool },
    /// A translucent area between two lines over the same places: place, low, high.
    Band(Vec<(f64, f64, f64)>, RGBColor),
    /// Quartiles and median at a place, half as wide as `half` on either side, and a count above.
    Quartiles { at: f64, quartiles: [f64; 3], half: f64, colour: RGBColor, count: String, weight: u64 },
    /// A vertical interval.
    Interval { at: f64, low: f64, high: f64, colour: RGBColor },
}

/// A panel.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) heading: String,
    /// Said in the middle of the panel where there is nothing to draw, else under the heading.
    pub(crate) note: Option<String>,
    pub(crate) x: Axis,
    pub(crate) x_name: String,
    pub(crate) y: Axis,
    pub(crate) y_name: String,
    pub(crate) items: Vec<Item>,
}

impl Panel {
    fn counted(&self) -> bool {
        self.items.iter().any(|item| matches!(item, Item::Quartiles { .. }))
    }
}

/// The plot.
#[derive(Clone, Debug)]
pub(crate) struct Panels {
    pub(crate) panels: Vec<Panel>,
    /// Panels side by side.
    pub(crate) columns: usize,
    /// Least height of a panel with its texts.
    pub(crate) least_height: f64,
}

const GAP: f64 = 36.0;

impl Panels {
    /// Draws the chart on a page of a width and at least a height.
    pub(crate) fn draw(&self, page: &Page, width: u32, height: u32) -> Picture {
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a number of panels")]
        let (across, down) = (columns as f64, rows as f64);
        let (mut canvas, area) =
            page.begin(width, height, down * self.least_height + (down - 1.0) * GAP / 2.0);
        let wide = (area.width() - (across - 1.0) * GAP) / across;
        let tall = (area.height() - (down - 1.0) * GAP / 2.0) / down;
        let head = self.panels.iter().map(|panel| Head::new(panel, wide).height()).fold(0.0, f64::max);
        for (place, panel) in self.panels.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "a number of panels")]
            let (column, row) = ((place % columns) as f64, (place / columns) as f64);
            let left = area.left + column * (wide + GAP);
            let top = area.top + row * (tall + GAP / 2.0);
            draw_panel(&mut canvas, panel, Rect { left, top, right: left + wide, bottom: top + tall }, head);
        }
        canvas.finish()
    }
}

/// The words above a panel's plot: heading, note, name of the upright axis.
struct Head {
    notes: Vec<String>,
    names: Vec<String>,
}

impl Head {
    fn new(panel: &Panel, room: f64) -> Self {
        let note = panel.note.as_ref().filter(|_| !panel.items.is_empty());
        Self {
            notes: note.map(|note| SMALL.wrap(note, room)).unwrap_or_default(),
            names: BODY.wrap(&panel.y_name, room),
        }
    }

    fn height(&self) -> f64 {
        28.0 + super::page::lines(self.notes.len(), SMALL) + super::page::lines(self.names.len(), BODY)
    }
}

/// `head` is the height of the tallest head of all panels, so that their plots stand level.
fn draw_panel(canvas: &mut Canvas, panel: &Panel, place: Rect, head: f64) {
    let words = Head::new(panel, place.width());
    let mut y = place.top;
    canvas.text(place.left, y + 18.0, Anchor::Left, HEADING, &HEADING.fit(&panel.heading, place.width()));
    y += 28.0;
    for line in &words.notes {
        canvas.text(place.left, y + 14.0, Anchor::Left, SMALL, line);
        y += SMALL.line();
    }
    // The axis' name stays with its axis.
    y = place.top + head - super::page::lines(words.names.len(), BODY);
    for line in &words.names {
        canvas.text(place.left, y + 14.0, Anchor::Left, BODY, line);
        y += BODY.line();
    }
    let labels = panel.y.ticks.iter().map(|tick| SMALL.width(&tick.label)).fold(0.0, f64::max);
    let plot = Rect {
        left: place.left + labels + 12.0,
        right: place.right - 4.0,
        top: place.top + head + if panel.counted() { 30.0 } else { 12.0 },
        bottom: place.bottom - 62.0,
    };
    // Axes of nothing would invent a scale.
    if panel.items.is_empty() {
        let room = plot.width() - 24.0;
        let lines: Vec<String> = panel.note.iter().flat_map(|note| BODY.wrap(note, room)).collect();
        let mut y = plot.y(0.5) - super::page::lines(lines.len(), BODY) / 2.0;
        for line in lines {
            y += BODY.line();
            canvas.text(plot.x(0.5), y, Anchor::Middle, BODY, &line);
        }
        return;
    }
    draw_axes(canvas, panel, plot);
    let at = |x: f64, y: f64| (plot.x(panel.x.at(x)), plot.y(panel.y.at(y)));
    for item in &panel.items {
        draw_item(canvas, item, (panel, plot), &at);
    }
    draw_counts(canvas, panel, plot);
}

fn draw_axes(canvas: &mut Canvas, panel: &Panel, plot: Rect) {
    for (tick, _) in panel.y.labelled(plot.height(), 6.0, SMALL.size, |_| SMALL.size) {
        let y = plot.y(panel.y.at(tick.value));
        canvas.horizontal((plot.left, plot.right), y, 1.0, GRID);
        canvas.text_at(plot.left - 8.0, y, Anchor::Right, SMALL, &tick.label);
    }
    for (tick, middle) in panel.x.labelled(plot.width(), 12.0, 4.0, |label| SMALL.width(label)) {
        let x = plot.x(panel.x.at(tick.value));
        canvas.vertical(x, (plot.bottom, plot.bottom + 6.0), 1.0, AXIS);
        canvas.text(plot.left + middle, plot.bottom + 24.0, Anchor::Middle, SMALL, &tick.label);
    }
    canvas.horizontal((plot.left, plot.right), plot.bottom, 1.5, AXIS);
    canvas.vertical(plot.left, (plot.top, plot.bottom), 1.5, AXIS);
    let name = BODY.fit(&panel.x_name, plot.width() + 40.0);
    canvas.text(plot.x(0.5), plot.bottom + 50.0, Anchor::Middle, BODY, &name);
}

fn draw_item(
    canvas: &mut Canvas,
    item: &Item,
    (panel, plot): (&Panel, Rect),
    at: &impl Fn(f64, f64) -> (f64, f64),
) {
    match item {
        Item::Line { points, look, width, marked } => {
            // What leaves the axis is left out, not bent along its edge.
            let inside = points.iter().filter(|(_, y)| panel.y.holds(*y));
            let points: Vec<(f64, f64)> = inside.map(|(x, y)| at(*x, *y)).collect();
            canvas.path(&points, *width, look.colour, look.dash);
            for point in points.iter().filter(|_| *marked) {
                canvas.marker(*point, 13.0, look.shape, look.colour, false);
            }
        }
        Item::Band(places, colour) => {
            let low = places.iter().map(|(x, low, _)| at(*x, *low));
            let high = places.iter().rev().map(|(x, _, high)| at(*x, *high));
            let corners: Vec<(f64, f64)> = low.chain(high).collect();
            canvas.polygon(&corners, *colour, 0.22);
        }
        Item::Quartiles { at: x, quartiles: [low, median, high], half, colour, .. } => {
            let (left, bottom) = at(x - half, *low);
            let (right, top) = at(x + half, *high);
            // Never thinner than can be seen, never wider than a thumb.
            let middle = at(*x, *median);
            let half = ((right - left) / 2.0).clamp(3.0, 18.0);
            let rect =
                Rect { left: middle.0 - half, right: middle.0 + half, top, bottom: bottom.max(top + 2.0) };
            let rect = Rect { left: rect.left.max(plot.left), ..rect };
            canvas.fill(rect, *colour, 0.35);
            canvas.horizontal((rect.left, rect.right), middle.1, 3.5, *colour);
        }
        Item::Interval { at: x, low, high, colour } => {
            let (x, low) = at(*x, *low);
            let (_, high) = at(0.0, *high);
            canvas.vertical(x, (high, low), 2.5, *colour);
            for y in [low, high] {
                canvas.horizontal((x - 6.0, x + 6.0), y, 2.5, *colour);
            }
        }
    }
}

/// Numbers of events over the boxes, those of most events first; what does not fit is left out.
fn draw_counts(canvas: &mut Canvas, panel: &Panel, plot: Rect) {
    let mut counts: Vec<(f64, &String, u64)> = panel
        .items
        .iter()
        .filter_map(|item| match item {
            Item::Quartiles { at, count, weight, .. } => Some((plot.x(panel.x.at(*at)), count, *weight)),
            _ => None,
        })
        .collect();
    counts.sort_by_key(|(_, _, weight)| std::cmp::Reverse(*weight));
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for (x, count, _) in counts {
        let half = SMALL.width(count) / 2.0 + 4.0;
        let x = x.clamp(plot.left + half, (plot.right - half).max(plot.left + half));
        if taken.iter().all(|(from, to)| x + half < *from || x - half > *to) {
            taken.push((x - half, x + half));
            canvas.text(x, plot.top - 8.0, Anchor::Middle, SMALL.in_colour(INK), count);
        }
    }
}
