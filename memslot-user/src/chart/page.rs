//! The frame of every chart: title, what it shows, legend, footer; the rest is for the plot.

use super::canvas::{Anchor, Canvas, Rect};
use super::font::Type;
use super::palette::{BLACK, Dash, INK, Look, SOFT, VERMILLION};
use plotters::style::RGBColor;

pub(crate) const TITLE: Type = Type::bold(28.0, INK);
pub(crate) const SUBTITLE: Type = Type::regular(18.0, SOFT);
pub(crate) const HEADING: Type = Type::bold(18.0, INK);
pub(crate) const BODY: Type = Type::regular(17.0, INK);
pub(crate) const SMALL: Type = Type::regular(16.0, SOFT);
/// Room around everything.
pub(crate) const MARGIN: f64 = 32.0;

/// A line of the footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remark {
    pub(crate) text: String,
    /// Something is missing or lost.
    pub(crate) warning: bool,
}

/// A key of the legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Key {
    /// A thin bar, for an interval.
    Bar(RGBColor),
    /// A full strip.
    Solid(RGBColor),
    /// A line with a marker.
    Series(Look),
    /// A line alone.
    Line(Look),
    /// A vertical tick of black.
    Tick(Dash),
    /// A marker alone, filled or hollow.
    Marker(Look, bool),
}

/// Texts around a plot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) legend: Vec<(Key, String)>,
    pub(crate) footer: Vec<Remark>,
}

/// Width of a legend's key.
const KEY: f64 = 44.0;
/// Width of a marker alone.
const SHORT: f64 = 16.0;
const KEY_GAP: f64 = 8.0;

impl Key {
    fn width(&self) -> f64 {
        KEY_GAP + if matches!(self, Self::Marker(..)) { SHORT } else { KEY }
    }
}

impl Page {
    /// Paper of a width, tall enough for a plot of `plot` pixels and no less than `height`; and where
    /// the plot goes. The texts are on it.
    pub(crate) fn begin(&self, width: u32, height: u32, plot: f64) -> (Canvas, Rect) {
        let room = f64::from(width) - 2.0 * MARGIN;
        let title = TITLE.wrap(&self.title, room);
        let subtitle = SUBTITLE.wrap(&self.subtitle, room);
        let legend = self.legend_lines(room);
        let footer: Vec<(String, bool)> = self
            .footer
            .iter()
            .flat_map(|remark| SMALL.wrap(&remark.text, room).into_iter().map(|line| (line, remark.warning)))
            .collect();

        let top = MARGIN
            + lines(title.len(), TITLE)
            + lines(subtitle.len(), SUBTITLE)
            + 6.0
            + lines(legend.len(), BODY)
            + 10.0;
        let bottom = lines(footer.len(), SMALL) + 12.0 + MARGIN / 2.0;
        let least = top + plot.ceil() + bottom;
        let height = f64::from(height).max(least);
        let mut canvas = Canvas::new(width, whole(height), self.title.clone());

        let mut y = MARGIN;
        for (text, kind) in
            title.iter().map(|line| (line, TITLE)).chain(subtitle.iter().map(|line| (line, SUBTITLE)))
        {
            canvas.text(MARGIN, y + kind.capital(), Anchor::Left, kind, text);
            y += kind.line();
        }
        y += 6.0;
        for line in &legend {
            let mut x = MARGIN;
            for (key, text) in line {
                draw_key(&mut canvas, key, x, y + BODY.capital() / 2.0);
                canvas.text(x + key.width(), y + BODY.capital(), Anchor::Left, BODY, text);
                x += key.width() + BODY.width(text) + 28.0;
            }
            y += BODY.line();
        }
        let mut y = height - bottom + 12.0;
        for (line, warning) in &footer {
            let kind = if *warning { Type::bold(SMALL.size, VERMILLION) } else { SMALL };
            canvas.text(MARGIN, y + kind.capital(), Anchor::Left, kind, line);
            y += SMALL.line();
        }
        let plot = Rect { left: MARGIN, right: MARGIN + room, top, bottom: height - bottom };
        (canvas, plot)
    }

    fn legend_lines(&self, room: f64) -> Vec<Vec<(&Key, String)>> {
        let mut lines: Vec<Vec<(&Key, String)>> = Vec::new();
        let mut used = f64::MAX;
        for (key, text) in &self.legend {
            let text = BODY.fit(text, room - key.width());
            let width = key.width() + BODY.width(&text);
            if used + width > room {
                lines.push(Vec::new());
                used = 0.0;
            }
            used += width + 28.0;
            if let Some(line) = lines.last_mut() {
                line.push((key, text));
            }
        }
        lines
    }
}

fn draw_key(canvas: &mut Canvas, key: &Key, x: f64, y: f64) {
    let middle = x + KEY / 2.0;
    match key {
        Key::Bar(colour) => {
            canvas.fill(Rect { left: x, right: x + KEY, top: y - 5.0, bottom: y + 5.0 }, *colour, 0.35);
        }
        Key::Solid(colour) => {
            canvas.fill(Rect { left: x, right: x + KEY, top: y - 5.0, bottom: y + 5.0 }, *colour, 1.0);
        }
        Key::Series(look) => {
            canvas.path(&[(x, y), (x + KEY, y)], 3.0, look.colour, look.dash);
            canvas.marker((middle, y), 12.0, look.shape, look.colour, false);
        }
        Key::Line(look) => canvas.path(&[(x, y), (x + KEY, y)], 3.0, look.colour, look.dash),
        Key::Tick(dash) => canvas.path(&[(x, y), (x + KEY, y)], 2.0, BLACK, *dash),
        Key::Marker(look, hollow) => {
            canvas.marker((x + SHORT / 2.0, y), 13.0, look.shape, look.colour, *hollow)
        }
    }
}

/// Height of so many lines.
pub(crate) fn lines(count: usize, kind: Type) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a handful of lines")]
    let count = count as f64;
    count * kind.line()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a height in pixels")]
fn whole(height: f64) -> u32 {
    height.ceil() as u32
}
