//! From shapes to pixels. Everything is drawn twice as large and averaged down, because plotters smooths
//! neither thick lines nor edges.

use super::Error;
use super::canvas::{Picture, Rect, Shape};
use super::font;
use super::palette::Dash;
use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters::style::{Color, RGBColor, ShapeStyle};

/// Pixels of the drawing to a pixel of the image.
const ZOOM: u32 = 2;

/// A picture of pixels: rows of red, green and blue bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// `3 * width * height` bytes.
    pub rgb: Vec<u8>,
}

impl Picture {
    /// The picture in pixels.
    ///
    /// # Errors
    /// Only where plotters itself fails; no data makes it.
    pub fn raster(&self) -> Result<Image, Error> {
        let size = (self.width * ZOOM, self.height * ZOOM);
        let mut raster =
            Raster { size, buffer: vec![u8::MAX; 3 * size.0 as usize * size.1 as usize], failed: None };
        if !font::register() {
            raster.failed = Some("the embedded font is damaged".into());
        }
        for shape in &self.shapes {
            raster.shape(shape);
        }
        raster.finish()
    }
}

impl Image {
    /// The image as a PNG file's bytes.
    ///
    /// # Errors
    /// Where the encoder refuses, which it does for an image of no pixels.
    pub fn png(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, self.width, self.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.rgb)?;
        writer.finish()?;
        Ok(bytes)
    }
}

struct Raster {
    size: (u32, u32),
    buffer: Vec<u8>,
    failed: Option<String>,
}

impl Raster {
    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Fill { rect, colour, alpha } => self.fill(*rect, *colour, *alpha),
            Shape::Polygon { corners, colour, alpha } => self.polygon(corners, *colour, *alpha),
            Shape::Circle { centre, radius, colour } => {
                let centre = (self.x(centre.0), self.y(centre.1));
                let radius = u32::try_from(px(radius * f64::from(ZOOM))).unwrap_or(0);
                let style = ShapeStyle { color: colour.mix(1.0), filled: true, stroke_width: 0 };
                self.draw(|backend| backend.draw_circle(centre, radius, &style, true));
            }
            Shape::Path { points, width, colour, dash } => self.path(points, *width, *colour, *dash),
            Shape::Text { left, baseline, kind, text } => {
                let (style, drop) = kind.style(f64::from(ZOOM));
                let place = (self.x(*left), self.y(baseline - drop / f64::from(ZOOM)));
                self.draw(|backend| backend.draw_text(text, &style, place));
            }
        }
    }

    /// Draws with plotters and keeps the first failure for [`Self::finish`].
    fn draw<E: std::fmt::Display>(&mut self, draw: impl FnOnce(&mut BitMapBackend<'_>) -> Result<(), E>) {
        let mut backend = BitMapBackend::with_buffer(&mut self.buffer, self.size);
        if let Err(error) = draw(&mut backend) {
            self.failed.get_or_insert_with(|| error.to_string());
        }
    }

    /// At least one pixel of the drawing in either direction.
    fn fill(&mut self, rect: Rect, colour: RGBColor, alpha: f64) {
        let (left, top) = (self.x(rect.left), self.y(rect.top));
        let right = self.x(rect.right).max(left + 1);
        let bottom = self.y(rect.bottom).max(top + 1);
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
        let pixels = self.buffer.get_mut(from..to).unwrap_or_default();
        let bytes = [colour.0, colour.1, colour.2];
        if alpha >= 1.0 {
            // Nearly all that is drawn covers what it lies on, the paper most of all.
            if bytes == [bytes[0]; 3] {
                pixels.fill(bytes[0]);
            } else {
                pixels.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&bytes));
            }
            return;
        }
        for pixel in pixels.chunks_exact_mut(3) {
            for (under, over) in pixel.iter_mut().zip(bytes) {
                *under = mix(*under, over, alpha);
            }
        }
    }

    fn path(&mut self, points: &[(f64, f64)], width: f64, colour: RGBColor, dash: Dash) {
        match dash {
            None => {
                for pair in points.windows(2) {
                    if let [from, to] = pair {
                        self.segment(*from, *to, width, (width / 2.0, colour));
                    }
                }
            }
            // Caps would close the gaps.
            Some(dash) => {
                for (from, to) in dashes(points, dash) {
                    self.segment(from, to, width, (0.0, colour));
                }
            }
        }
    }

    /// `cap`: by how much a level line reaches beyond its ends, so that corners are closed.
    fn segment(&mut self, from: (f64, f64), to: (f64, f64), width: f64, (cap, colour): (f64, RGBColor)) {
        let half = width / 2.0;
        if (from.1 - to.1).abs() < 1e-9 {
            let (left, right) = (from.0.min(to.0) - cap, from.0.max(to.0) + cap);
            return self.fill(Rect { left, right, top: from.1 - half, bottom: from.1 + half }, colour, 1.0);
        }
        if (from.0 - to.0).abs() < 1e-9 {
            let (top, bottom) = (from.1.min(to.1), from.1.max(to.1));
            return self.fill(Rect { left: from.0 - half, right: from.0 + half, top, bottom }, colour, 1.0);
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

    fn polygon(&mut self, corners: &[(f64, f64)], colour: RGBColor, alpha: f64) {
        let corners: Vec<(i32, i32)> = corners.iter().map(|(x, y)| (self.x(*x), self.y(*y))).collect();
        let style = ShapeStyle { color: colour.mix(alpha), filled: true, stroke_width: 0 };
        self.draw(|backend| backend.fill_polygon(corners, &style));
    }

    /// The image, averaged down.
    fn finish(self) -> Result<Image, Error> {
        if let Some(reason) = self.failed {
            return Err(Error::Draw(reason));
        }
        let (width, height) = (self.size.0 as usize, self.size.1 as usize);
        let mut rgb = Vec::with_capacity(3 * width * height / 4);
        for rows in self.buffer.chunks_exact(3 * width * ZOOM as usize) {
            let (upper, lower) = rows.split_at(3 * width);
            // Two pixels of each row become one.
            for (above, below) in upper.as_chunks::<6>().0.iter().zip(lower.as_chunks::<6>().0) {
                let [a, b, c, d, e, f] = *above;
                if above == below && [a, b, c] == [d, e, f] {
                    rgb.extend_from_slice(&[a, b, c]);
                    continue;
                }
                let [g, h, i, j, k, l] = *below;
                rgb.extend_from_slice(&[mean([a, d, g, j]), mean([b, e, h, k]), mean([c, f, i, l])]);
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

fn mean(bytes: [u8; 4]) -> u8 {
    let sum: u16 = bytes.into_iter().map(u16::from).sum();
    u8::try_from((sum + 2) / 4).unwrap_or(u8::MAX)
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
    use crate::chart::canvas::{Anchor, Canvas};
    use crate::chart::font::Type;
    use crate::chart::palette::{BLUE, INK, Marker, WHITE};

    fn pixel(image: &Image, x: u32, y: u32) -> RGBColor {
        let at = 3 * (y * image.width + x) as usize;
        RGBColor(image.rgb[at], image.rgb[at + 1], image.rgb[at + 2])
    }

    #[test]
    fn a_rectangle_covers_its_pixels_and_no_others() {
        let mut canvas = Canvas::new(10, 10, String::new());
        canvas.fill(Rect { left: 2.0, top: 3.0, right: 5.0, bottom: 6.0 }, BLUE, 1.0);
        let image = canvas.finish().raster().unwrap();
        for y in 0..10 {
            for x in 0..10 {
                let inside = (2..5).contains(&x) && (3..6).contains(&y);
                assert_eq!(pixel(&image, x, y), if inside { BLUE } else { WHITE }, "{x} {y}");
            }
        }
    }

    #[test]
    fn text_stands_on_its_baseline() {
        let mut canvas = Canvas::new(60, 60, String::new());
        canvas.text(10.0, 40.0, Anchor::Left, Type::regular(30.0, INK), "H");
        let image = canvas.finish().raster().unwrap();
        let rows: Vec<u32> = (0..60).filter(|y| (0..60).any(|x| pixel(&image, x, *y) != WHITE)).collect();
        let (top, bottom) = (rows[0], rows[rows.len() - 1]);
        // Roboto's H is 1456/2048 em high: 21.3 pixels.
        assert!((18..=20).contains(&top) && (39..=40).contains(&bottom), "{top} to {bottom}");
    }

    #[test]
    fn anything_may_be_drawn_anywhere() {
        let mut canvas = Canvas::new(20, 20, String::new());
        let wild = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -1e9, 5.0];
        for a in wild {
            for b in wild {
                canvas.fill(Rect { left: a, top: b, right: b, bottom: a }, BLUE, 0.5);
                canvas.path(&[(a, b), (b, a), (5.0, a)], 2.0, BLUE, Some((3.0, 2.0)));
                canvas.path(&[(a, b), (b, a), (5.0, a)], 2.0, BLUE, None);
                canvas.polygon(&[(a, b), (b, a), (1.0, a)], BLUE, 0.3);
                canvas.text(a, b, Anchor::Middle, Type::regular(16.0, INK), "x");
                for shape in
                    [Marker::Circle, Marker::Square, Marker::Diamond, Marker::Up, Marker::Down, Marker::Cross]
                {
                    canvas.marker((a, b), 10.0, shape, BLUE, true);
                }
            }
        }
        let picture = canvas.finish();
        assert!(picture.raster().is_ok());
        let svg = picture.svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn dashes_go_on_through_corners() {
        let found = dashes(&[(0.0, 0.0), (5.0, 0.0), (5.0, 5.0)], (4.0, 2.0));
        assert_eq!(found, [((0.0, 0.0), (4.0, 0.0)), ((5.0, 1.0), (5.0, 5.0))]);
    }
}
