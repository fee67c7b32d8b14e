//! Drawing in logical pixels. Everything is drawn twice as large and averaged down, because plotters
//! smooths neither thick lines nor edges.

use super::Error;
use super::font::{self, Type};
use super::palette::{Dash, Shape, WHITE};
use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters::style::{Color, RGBColor, ShapeStyle};

/// Pixels of the drawing to a pixel of the image.
const ZOOM: u32 = 2;

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

/// A finished picture: rows of red, green and blue bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// `3 * width * height` bytes.
    pub rgb: Vec<u8>,
}

/// What is drawn on.
pub(crate) struct Canvas {
    size: (u32, u32),
    buffer: Vec<u8>,
    failed: Option<String>,
}

impl Canvas {
    /// White paper of a size in logical pixels.
    pub(crate) fn new(width: u32, height: u32) -> Self {
        let size = (width.max(1) * ZOOM, height.max(1) * ZOOM);
        let mut canvas =
            Self { size, buffer: vec![u8::MAX; 3 * size.0 as usize * size.1 as usize], failed: None };
        if !font::register() {
            canvas.failed = Some("the embedded font is damaged".into());
        }
        canvas
    }

    /// Draws with plotters and keeps the first failure for [`Self::finish`].
    fn draw<E: std::fmt::Display>(&mut self, draw: impl FnOnce(&mut BitMapBackend<'_>) -> Result<(), E>) {
        let mut backend = BitMapBackend::with_buffer(&mut self.buffer, self.size);
        if let Err(error) = draw(&mut backend) {
            self.failed.get_or_insert_with(|| error.to_string());
        }
    }

    /// A filled rectangle, at least one pixel of the drawing in either direction.
    pub(crate) fn fill(&mut self, rect: Rect, colour: RGBColor, alpha: f64) {
        let (left, top) = (self.x(rect.left.min(rect.right)), self.y(rect.top.min(rect.bottom)));
        let right = self.x(rect.left.max(rect.right)).max(left + 1);
        let bottom = self.y(rect.top.max(rect.bottom)).max(top + 1);
        // plotters includes the last row and column of a filled rectangle in some paths and not in
        // others; rows of our own are exact.
        let (width, height) = (self.size.0.cast_signed(), self.size.1.cast_signed());
        let (left, right) = (left.clamp(0, width), right.clamp(0, width));
        for row in top.clamp(0, height)..bottom.clamp(0, height) {
            self.blend(row, left, right, colour, alpha);
        }
    }

    fn blend(&mut self, row: i32, left: i32, right: i32, colour: RGBColor, alpha: f64) {
        let width = i64::from(self.size.0);
        let range = [left, right].map(|x| usize::try_from((i64::from(row) * width + i64::from(x)) * 3).ok());
        let [Some(from), Some(to)] = range else { return };
        for pixel in self.buffer.get_mut(from..to).unwrap_or_default().chunks_exact_mut(3) {
            for (under, over) in pixel.iter_mut().zip([colour.0, colour.1, colour.2]) {
                *under = mix(*under, over, alpha);
            }
        }
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
        for pair in points.windows(2) {
            if let [from, to] = pair
                && dash.is_none()
            {
                self.segment(*from, *to, width, colour);
            }
        }
        if let Some(dash) = dash {
            for (from, to) in dashes(points, dash) {
                self.segment(from, to, width, colour);
            }
        }
    }

    fn segment(&mut self, from: (f64, f64), to: (f64, f64), width: f64, colour: RGBColor) {
        let half = width / 2.0;
        if (from.1 - to.1).abs() < 1e-9 {
            let (left, right) = (from.0.min(to.0) - half, from.0.max(to.0) + half);
            return self.horizontal((left, right), from.1, width, colour);
        }
        if (from.0 - to.0).abs() < 1e-9 {
            return self.vertical(from.0, (from.1.min(to.1), from.1.max(to.1)), width, colour);
        }
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let (across, down) = ((to.1 - from.1) / length * half, (to.0 - from.0) / length * half);
        self.polygon(
            &[
                (from.0 + across, from.1 - down),
                (to.0 + across, to.1 - down),
                (to.0 - across, to.1 + down),
                (from.0 - across, from.1 + down),
            ],
            colour,
            1.0,
        );
    }

    /// A filled polygon.
    pub(crate) fn polygon(&mut self, corners: &[(f64, f64)], colour: RGBColor, alpha: f64) {
        if corners.len() < 3 {
            return;
        }
        let corners: Vec<(i32, i32)> = corners.iter().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
        let style = ShapeStyle { color: colour.mix(alpha), filled: true, stroke_width: 0 };
        self.draw(|backend| backend.fill_polygon(corners, &style));
    }

    /// A marker, filled or hollow, that many pixels across.
    pub(crate) fn marker(
        &mut self,
        (x, y): (f64, f64),
        size: f64,
        shape: Shape,
        colour: RGBColor,
        hollow: bool,
    ) {
        self.solid((x, y), size / 2.0, shape, colour);
        if hollow && shape != Shape::Cross {
            self.solid((x, y), size / 2.0 - 2.5, shape, WHITE);
        }
    }

    fn solid(&mut self, (x, y): (f64, f64), r: f64, shape: Shape, colour: RGBColor) {
        match shape {
            Shape::Circle => {
                let centre = (self.x(x), self.y(y));
                let radius = u32::try_from(px(r * f64::from(ZOOM))).unwrap_or(0);
                let style = ShapeStyle { color: colour.mix(1.0), filled: true, stroke_width: 0 };
                self.draw(|backend| backend.draw_circle(centre, radius, &style, true));
            }
            Shape::Square => {
                let r = r * 0.9;
                self.fill(Rect { left: x - r, right: x + r, top: y - r, bottom: y + r }, colour, 1.0);
            }
            Shape::Diamond => {
                let r = r * 1.15;
                self.polygon(&[(x, y - r), (x + r, y), (x, y + r), (x - r, y)], colour, 1.0);
            }
            Shape::Up => self.polygon(
                &[(x, y - r * 1.1), (x + r * 1.1, y + r * 0.8), (x - r * 1.1, y + r * 0.8)],
                colour,
                1.0,
            ),
            Shape::Down => self.polygon(
                &[(x, y + r * 1.1), (x + r * 1.1, y - r * 0.8), (x - r * 1.1, y - r * 0.8)],
                colour,
                1.0,
            ),
            Shape::Cross => {
                let r = r * 0.85;
                self.segment((x - r, y - r), (x + r, y + r), 3.0, colour);
                self.segment((x - r, y + r), (x + r, y - r), 3.0, colour);
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
        let (style, drop) = kind.style(f64::from(ZOOM));
        let place = (self.x(left), self.y(baseline - drop / f64::from(ZOOM)));
        self.draw(|backend| backend.draw_text(text, &style, place));
    }

    /// A line of text whose capitals are centred on `y`.
    pub(crate) fn text_at(&mut self, x: f64, y: f64, anchor: Anchor, kind: Type, text: &str) {
        self.text(x, y + kind.capital() / 2.0, anchor, kind, text);
    }

    /// The picture, averaged down.
    pub(crate) fn finish(self) -> Result<Image, Error> {
        if let Some(reason) = self.failed {
            return Err(Error::Draw(reason));
        }
        let zoom = ZOOM as usize;
        let (width, height) = (self.size.0 as usize / zoom, self.size.1 as usize / zoom);
        let stride = self.size.0 as usize * 3;
        let mut rgb = Vec::with_capacity(3 * width * height);
        for rows in self.buffer.chunks_exact(stride * zoom) {
            let (upper, lower) = rows.split_at(stride);
            for (above, below) in upper.chunks_exact(3 * zoom).zip(lower.chunks_exact(3 * zoom)) {
                let (a, b) = above.split_at(3);
                let (c, d) = below.split_at(3);
                for (((a, b), c), d) in a.iter().zip(b).zip(c).zip(d) {
                    let sum = u16::from(*a) + u16::from(*b) + u16::from(*c) + u16::from(*d);
                    rgb.push(u8::try_from((sum + 2) / 4).unwrap_or(u8::MAX));
                }
            }
        }
        Ok(Image { width: self.size.0 / ZOOM, height: self.size.1 / ZOOM, rgb })
    }

    fn x(&self, x: f64) -> i32 {
        within(x, self.size.0)
    }

    fn y(&self, y: f64) -> i32 {
        within(y, self.size.1)
    }
}

/// A place in the drawing, kept near it so that no arithmetic of the rasteriser can overflow.
fn within(logical: f64, size: u32) -> i32 {
    let size = f64::from(size);
    px((logical * f64::from(ZOOM)).clamp(-size, 2.0 * size))
}

#[expect(clippy::cast_possible_truncation, reason = "a saturating cast; NaN becomes 0")]
fn px(value: f64) -> i32 {
    value.round() as i32
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
fn mix(under: u8, over: u8, alpha: f64) -> u8 {
    (f64::from(under) + (f64::from(over) - f64::from(under)) * alpha.clamp(0.0, 1.0)).round() as u8
}

/// Cuts a line into dashes; the pattern runs on through corners.
fn dashes(points: &[(f64, f64)], (on, off): (f64, f64)) -> Vec<((f64, f64), (f64, f64))> {
    let mut found = Vec::new();
    let period = on + off;
    let mut done = 0.0;
    for pair in points.windows(2) {
        let [from, to] = pair else { continue };
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        if !length.is_finite() || length > 1e5 || length <= 0.0 {
            continue;
        }
        let at = |way: f64| {
            let share = (way / length).clamp(0.0, 1.0);
            (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share)
        };
        let mut start = -(done % period);
        while start < length {
            if start + on > 0.0 {
                found.push((at(start.max(0.0)), at((start + on).min(length))));
            }
            start += period;
        }
        done += length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::palette::{BLUE, INK};

    fn pixel(image: &Image, x: u32, y: u32) -> RGBColor {
        let at = 3 * (y * image.width + x) as usize;
        RGBColor(image.rgb[at], image.rgb[at + 1], image.rgb[at + 2])
    }

    #[test]
    fn a_rectangle_covers_its_pixels_and_no_others() {
        let mut canvas = Canvas::new(10, 10);
        canvas.fill(Rect { left: 2.0, top: 3.0, right: 5.0, bottom: 6.0 }, BLUE, 1.0);
        let image = canvas.finish().unwrap();
        for y in 0..10 {
            for x in 0..10 {
                let inside = (2..5).contains(&x) && (3..6).contains(&y);
                assert_eq!(pixel(&image, x, y), if inside { BLUE } else { WHITE }, "{x} {y}");
            }
        }
    }

    #[test]
    fn text_stands_on_its_baseline() {
        let mut canvas = Canvas::new(60, 60);
        canvas.text(10.0, 40.0, Anchor::Left, Type::regular(30.0, INK), "H");
        let image = canvas.finish().unwrap();
        let rows: Vec<u32> = (0..60).filter(|y| (0..60).any(|x| pixel(&image, x, *y) != WHITE)).collect();
        let (top, bottom) = (rows[0], rows[rows.len() - 1]);
        // Roboto's H is 1456/2048 em high: 21.3 pixels.
        assert!((18..=20).contains(&top) && (39..=40).contains(&bottom), "{top} to {bottom}");
    }

    #[test]
    fn anything_may_be_drawn_anywhere() {
        let mut canvas = Canvas::new(20, 20);
        let wild = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -1e9, 5.0];
        for a in wild {
            for b in wild {
                canvas.fill(Rect { left: a, top: b, right: b, bottom: a }, BLUE, 0.5);
                canvas.path(&[(a, b), (b, a), (5.0, a)], 2.0, BLUE, Some((3.0, 2.0)));
                canvas.path(&[(a, b), (b, a), (5.0, a)], 2.0, BLUE, None);
                canvas.polygon(&[(a, b), (b, a), (1.0, a)], BLUE, 0.3);
                canvas.text(a, b, Anchor::Middle, Type::regular(16.0, INK), "x");
                for shape in
                    [Shape::Circle, Shape::Square, Shape::Diamond, Shape::Up, Shape::Down, Shape::Cross]
                {
                    canvas.marker((a, b), 10.0, shape, BLUE, true);
                }
            }
        }
        assert!(canvas.finish().is_ok());
    }

    #[test]
    fn dashes_go_on_through_corners() {
        let found = dashes(&[(0.0, 0.0), (5.0, 0.0), (5.0, 5.0)], (4.0, 2.0));
        assert_eq!(found, [((0.0, 0.0), (4.0, 0.0)), ((5.0, 1.0), (5.0, 5.0))]);
    }
}
