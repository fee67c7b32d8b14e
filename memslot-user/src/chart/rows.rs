//! Charts of rows over one shared axis: names at the left, figures at the right. Figures stand in
//! columns, so that no label can collide with another however close the values are.

use super::Picture;
use super::canvas::{Anchor, Canvas, Rect};
use super::font::Type;
use super::page::{BODY, HEADING, Page, SMALL};
use super::palette::{AXIS, BLACK, Dash, GRID, INK, Look, SOFT, WHITE};
use super::scale::Axis;
use plotters::style::RGBColor;

/// Something drawn in a row.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// A histogram: from, to and height (share of the row) of each bar.
    Bars(Vec<(f64, f64, f64)>, RGBColor),
    /// A vertical line through the row, and its name where there is room.
    Tick { at: f64, dash: Dash, name: &'static str },
    /// A horizontal bar of a thickness in pixels.
    Range { from: f64, to: f64, thickness: f64, colour: RGBColor, alpha: f64 },
    /// A marker.
    Point { at: f64, look: Look, hollow: bool },
    /// Steps over time within the row: from, to, and lowest, highest and last height (shares).
    Steps(Vec<Step>, RGBColor),
    /// Words at the right end of the row.
    Words(String),
}

/// A span of a step line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// Heights as shares of the row.
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) last: f64,
}

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) colour: RGBColor,
    pub(crate) cells: Vec<String>,
    pub(crate) marks: Vec<Mark>,
}

/// Rows under a heading.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) heading: String,
    /// Said under the heading: why rows are missing.
    pub(crate) note: Option<String>,
    pub(crate) rows: Vec<Row>,
}

/// The plot.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) axis: Axis,
    pub(crate) axis_name: String,
    /// Headings of the cells.
    pub(crate) columns: Vec<String>,
    pub(crate) sections: Vec<Section>,
    /// Least and largest height of a row.
    pub(crate) row_height: (f64, f64),
}

const SECTION: f64 = 36.0;
const GAP: f64 = 22.0;
/// Room between plot and table, into which the last tick's label may reach.
const TABLE: f64 = 20.0;
/// Ticks above, ticks and the axis' name below.
const HEAD: f64 = 34.0;
const FOOT: f64 = 62.0;

impl Rows {
    /// Draws the chart on a page of a width and at least a height.
    pub(crate) fn draw(&self, page: &Page, width: u32, height: u32) -> Picture {
        let room = f64::from(width) - 2.0 * super::page::MARGIN;
        let rows: usize = self.sections.iter().map(|section| section.rows.len()).sum();
        #[expect(clippy::cast_precision_loss, reason = "a number of rows")]
        let rows = rows as f64;
        let fixed: f64 =
            HEAD + FOOT + self.sections.iter().map(|section| self.head(section, room)).sum::<f64>();
        let (mut canvas, area) = page.begin(width, height, fixed + rows * self.row_height.0);
        let row = ((area.height() - fixed) / rows.max(1.0)).clamp(self.row_height.0, self.row_height.1);

        let label = self.widest(|row| BODY.width(&row.label)).min(room * 0.22);
        let columns: Vec<f64> = (0..self.columns.len()).map(|column| self.column(column)).collect();
        let table: f64 = columns.iter().map(|width| width + GAP).sum();
        let plot = Rect {
            left: area.left + label + GAP,
            right: area.right - table - TABLE,
            top: area.top + HEAD,
            bottom: area.top + fixed - FOOT + rows * row,
        };
        self.axis(&mut canvas, plot);
        let mut right = plot.right + TABLE;
        for (name, width) in self.columns.iter().zip(&columns) {
            right += width + GAP;
            canvas.text(right, plot.top - 12.0, Anchor::Right, Type::bold(SMALL.size, SOFT), name);
        }

        let mut y = plot.top;
        for section in &self.sections {
            canvas.horizontal((area.left, area.right), y, 1.0, AXIS);
            // Grid lines belong to the rows, not to the words above them.
            let words = Rect { top: y + 1.0, bottom: y + self.head(section, room) - 2.0, ..area };
            canvas.fill(words, WHITE, 1.0);
            canvas.text(area.left, y + 25.0, Anchor::Left, HEADING, &HEADING.fit(&section.heading, room));
            y += SECTION;
            if let Some(note) = &section.note {
                for line in SMALL.wrap(note, room) {
                    canvas.text(area.left, y + SMALL.capital() + 4.0, Anchor::Left, SMALL, &line);
                    y += SMALL.line();
                }
                y += 10.0;
            }
            for one in &section.rows {
                let place = Rect { top: y, bottom: y + row, ..plot };
                self.row(&mut canvas, one, place, (area.left, label));
                let mut right = plot.right + TABLE;
                let middle = y + row / 2.0;
                for (cell, width) in one.cells.iter().zip(&columns) {
                    right += width + GAP;
                    canvas.text_at(right, middle, Anchor::Right, BODY, cell);
                }
                y += row;
            }
        }
        canvas.finish()
    }

    fn head(&self, section: &Section, room: f64) -> f64 {
        let note = section
            .note
            .as_ref()
            .map_or(0.0, |note| super::page::lines(SMALL.wrap(note, room).len(), SMALL) + 10.0);
        SECTION + note
    }

    fn widest(&self, width: impl Fn(&Row) -> f64) -> f64 {
        self.sections.iter().flat_map(|section| &section.rows).map(width).fold(0.0, f64::max)
    }

    fn column(&self, column: usize) -> f64 {
        let heading = self.columns.get(column).map_or(0.0, |name| Type::bold(SMALL.size, SOFT).width(name));
        heading.max(self.widest(|row| row.cells.get(column).map_or(0.0, |cell| BODY.width(cell))))
    }

    fn axis(&self, canvas: &mut Canvas, plot: Rect) {
        for tick in self.axis.coarse() {
            canvas.vertical(plot.x(self.axis.at(tick.value)), (plot.top, plot.bottom), 1.0, GRID);
        }
        for (tick, middle) in self.axis.labelled(plot.width(), 14.0, TABLE - 2.0, |label| SMALL.width(label))
        {
            let (x, middle) = (plot.x(self.axis.at(tick.value)), plot.left + middle);
            canvas.vertical(x, (plot.top, plot.bottom), 1.0, GRID);
            canvas.vertical(x, (plot.bottom, plot.bottom + 6.0), 1.0, AXIS);
            canvas.text(middle, plot.top - 12.0, Anchor::Middle, SMALL, &tick.label);
            canvas.text(middle, plot.bottom + 24.0, Anchor::Middle, SMALL, &tick.label);
        }
        canvas.horizontal((plot.left, plot.right), plot.bottom, 1.5, AXIS);
        let name = BODY.fit(&self.axis_name, plot.width());
        canvas.text(plot.x(0.5), plot.bottom + 52.0, Anchor::Middle, BODY, &name);
    }

    fn row(&self, canvas: &mut Canvas, row: &Row, place: Rect, (left, room): (f64, f64)) {
        let middle = place.y(0.5);
        let label = BODY.fit(&row.label, room);
        canvas.text_at(left, middle, Anchor::Left, BODY.in_colour(INK), &label);
        canvas.fill(
            Rect {
                left: place.left - 9.0,
                right: place.left - 4.0,
                top: place.top + 4.0,
                bottom: place.bottom - 2.0,
            },
            row.colour,
            1.0,
        );
        let named = row.marks.iter().any(|mark| matches!(mark, Mark::Tick { name, .. } if !name.is_empty()));
        let above = if named { SMALL.line() } else { 6.0 };
        let base = place.bottom - 2.0;
        let x = |value: f64| place.x(self.axis.at(value));
        let mut taken: Vec<(f64, f64)> = Vec::new();
        for mark in &row.marks {
            match mark {
                Mark::Bars(bars, colour) => {
                    for (from, to, height) in bars {
                        let tall = (base - place.top - above) * height.clamp(0.0, 1.0);
                        let (from, to) = (x(*from), x(*to));
                        // A bar of something is never invisible, however small its share.
                        let bar = Rect {
                            left: from,
                            right: to.max(from + 1.5),
                            top: base - tall.max(1.5),
                            bottom: base,
                        };
                        canvas.fill(bar, *colour, 0.85);
                    }
                    canvas.horizontal((place.left, place.right), base, 1.0, GRID);
                }
                Mark::Tick { at, dash, name } => {
                    let at = x(*at);
                    let top = if name.is_empty() { place.top } else { place.top + above - 2.0 };
                    canvas.path(&[(at, top), (at, place.bottom)], 2.0, BLACK, *dash);
                    let half = SMALL.width(name) / 2.0 + 3.0;
                    let spot = at.clamp(place.left + half, (place.right - half).max(place.left + half));
                    if taken.iter().all(|(from, to)| spot + half < *from || spot - half > *to) {
                        taken.push((spot - half, spot + half));
                        canvas.text(spot, place.top + above - 5.0, Anchor::Middle, SMALL, name);
                    }
                }
                Mark::Range { from, to, thickness, colour, alpha } => {
                    let (from, to) = (x(*from), x(*to));
                    let half = thickness / 2.0;
                    let bar = Rect {
                        left: from,
                        right: to.max(from + 1.0),
                        top: middle - half,
                        bottom: middle + half,
                    };
                    canvas.fill(bar, *colour, *alpha);
                }
                Mark::Point { at, look, hollow } => {
                    canvas.marker((x(*at), middle), 14.0, look.shape, look.colour, *hollow);
                }
                Mark::Steps(steps, colour) => {
                    let tall = base - place.top - 8.0;
                    let y = |height: f64| base - tall * height.clamp(0.0, 1.0);
                    for (step, next) in steps.iter().zip(steps.iter().skip(1).map(Some).chain([None])) {
                        let (from, to) = (x(step.from), x(next.map_or(step.to, |next| next.from)));
                        let area = Rect { left: from, right: to, top: y(step.last), bottom: base };
                        canvas.fill(area, *colour, 0.3);
                        canvas.horizontal((from, to.max(from + 1.0)), y(step.last), 2.0, *colour);
                        // The rise or fall to the next, and what joined spans hide.
                        let ends = next.map_or((step.low, step.high), |next| {
                            (step.low.min(next.low), step.high.max(next.high))
                        });
                        let at = next.map_or(from, |_| to);
                        canvas.vertical(at, (y(ends.1), y(ends.0)), 1.5, *colour);
                    }
                    canvas.horizontal((place.left, place.right), base, 1.0, GRID);
                }
                Mark::Words(words) => {
                    let words = SMALL.fit(words, place.width() / 2.0);
                    canvas.text_at(place.right - 6.0, middle, Anchor::Right, SMALL, &words);
                }
            }
        }
    }
}
