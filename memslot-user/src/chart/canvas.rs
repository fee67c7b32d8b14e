//! What is drawn on: shapes in logical pixels, in the order in which they lie over each other. Nothing is
//! a pixel or a tag yet; [`super::raster`] and [`super::svg`] make either of the same shapes.

use super::font::Type;
use super::palette::{Dash, Marker, SHEET, WHITE};
use plotters::style::RGBColor;

/// Which point of a text is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Left,
    Middle,
    Right,
}

/// A rectangle, logical pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rect {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Rect {
    pub(crate) fn width(self) -> f64 {
        self.right - self.left
    }

    pub(crate) fn height(self) -> f64 {
        self.bottom - self.top
    }

    /// The place at a share of the width.
    pub(crate) fn x(self, share: f64) -> f64 {
        self.left + share * self.width()
    }

    /// The place at a share of the height, from the bottom.
    pub(crate) fn y(self, share: f64) -> f64 {
        self.bottom - share * self.height()
    }
}

/// Something that was drawn.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    /// A filled rectangle.
    Fill { rect: Rect, colour: RGBColor, alpha: f64 },
    /// A filled polygon.
    Polygon { corners: Vec<(f64, f64)>, colour: RGBColor, alpha: f64 },
    /// A filled circle.
    Circle { centre: (f64, f64), radius: f64, colour: RGBColor },
    /// A line through points.
    Path { points: Vec<(f64, f64)>, width: f64, colour: RGBColor, dash: Dash },
    /// A line of text, from its left end on its baseline.
    Text { left: f64, baseline: f64, kind: Type, text: String },
}

/// A finished picture, as PNG by [`Picture::raster`], as SVG by [`Picture::svg`].
#[derive(Clone, Debug)]
pub struct Picture {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// What it shows, for those who cannot see it.
    pub title: String,
    pub(super) shapes: Vec<Shape>,
}

/// Paper that is being drawn on.
pub(crate) struct Canvas {
    picture: Picture,
}

impl Canvas {
    /// White paper of a size in logical pixels.
    pub(crate) fn new(width: u32, height: u32, title: String) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        let mut canvas = Self { picture: Picture { width, height, title, shapes: Vec::new() } };
        let paper = Rect { left: 0.0, top: 0.0, right: width.into(), bottom: height.into() };
        canvas.fill(paper, WHITE, 1.0);
        canvas
    }

    /// A filled rectangle, never too thin to be seen.
    pub(crate) fn fill(&mut self, rect: Rect, colour: RGBColor, alpha: f64) {
        let rect = Rect {
            left: rect.left.min(rect.right),
            right: rect.left.max(rect.right),
            top: rect.top.min(rect.bottom),
            bottom: rect.top.max(rect.bottom),
        };
        self.picture.shapes.push(Shape::Fill { rect, colour, alpha });
    }

    /// A piece of paper that stays white on a dark page, for colours that mean a number.
    pub(crate) fn sheet(&mut self, rect: Rect) {
        self.fill(rect, SHEET, 1.0);
    }

    /// A horizontal line.
    pub(crate) fn horizontal(&mut self, (left, right): (f64, f64), y: f64, width: f64, colour: RGBColor) {
        self.fill(Rect { left, right, top: y - width / 2.0, bottom: y + width / 2.0 }, colour, 1.0);
    }

    /// A vertical line.
    pub(crate) fn vertical(&mut self, x: f64, (top, bottom): (f64, f64), width: f64, colour: RGBColor) {
        self.fill(Rect { left: x - width / 2.0, right: x + width / 2.0, top, bottom }, colour, 1.0);
    }

    /// A line through points.
    pub(crate) fn path(&mut self, points: &[(f64, f64)], width: f64, colour: RGBColor, dash: Dash) {
        self.picture.shapes.push(Shape::Path { points: points.into(), width, colour, dash });
    }

    /// A filled polygon.
    pub(crate) fn polygon(&mut self, corners: &[(f64, f64)], colour: RGBColor, alpha: f64) {
        if corners.len() >= 3 {
            self.picture.shapes.push(Shape::Polygon { corners: corners.into(), colour, alpha });
        }
    }

    /// A marker, filled or hollow, that many pixels across.
    pub(crate) fn marker(
        &mut self,
        (x, y): (f64, f64),
        size: f64,
        marker: Marker,
        colour: RGBColor,
        hollow: bool,
    ) {
        self.solid((x, y), size / 2.0, marker, colour);
        if hollow && marker != Marker::Cross {
            self.solid((x, y), size / 2.0 - 2.5, marker, WHITE);
        }
    }

    fn solid(&mut self, (x, y): (f64, f64), r: f64, marker: Marker, colour: RGBColor) {
        match marker {
            Marker::Circle => {
                self.picture.shapes.push(Shape::Circle { centre: (x, y), radius: r, colour });
            }
            Marker::Square => {
                let r = r * 0.9;
                self.fill(Rect { left: x - r, right: x + r, top: y - r, bottom: y + r }, colour, 1.0);
            }
            Marker::Diamond => {
                let r = r * 1.15;
                self.polygon(&[(x, y - r), (x + r, y), (x, y + r), (x - r, y)], colour, 1.0);
            }
            Marker::Up => self.polygon(
                &[(x, y - r * 1.1), (x + r * 1.1, y + r * 0.8), (x - r * 1.1, y + r * 0.8)],
                colour,
                1.0,
            ),
            Marker::Down => self.polygon(
                &[(x, y + r * 1.1), (x + r * 1.1, y - r * 0.8), (x - r * 1.1, y - r * 0.8)],
                colour,
                1.0,
            ),
            Marker::Cross => {
                let r = r * 0.85;
                self.path(&[(x - r, y - r), (x + r, y + r)], 3.0, colour, None);
                self.path(&[(x - r, y + r), (x + r, y - r)], 3.0, colour, None);
            }
        }
    }

    /// A line of text on a baseline.
    pub(crate) fn text(&mut self, x: f64, baseline: f64, anchor: Anchor, kind: Type, text: &str) {
        let left = match anchor {
            Anchor::Left => x,
            Anchor::Middle => x - kind.width(text) / 2.0,
            Anchor::Right => x - kind.width(text),
        };
        self.picture.shapes.push(Shape::Text { left, baseline, kind, text: text.to_owned() });
    }

    /// A line of text whose capitals are centred on `y`.
    pub(crate) fn text_at(&mut self, x: f64, y: f64, anchor: Anchor, kind: Type, text: &str) {
        self.text(x, y + kind.capital() / 2.0, anchor, kind, text);
    }

    /// The picture.
    pub(crate) fn finish(self) -> Picture {
        self.picture
    }
}
