//! From shapes to SVG: no script, no reference to anything outside, no font but by name. A text is told
//! how wide it must be, so that labels fit as measured whatever font the reader has.

use super::canvas::{Picture, Rect, Shape};
use super::palette::{AXIS, BLACK, GRID, INK, SOFT, VIOLET, WHITE};
use super::text::plain;
use plotters::style::RGBColor;
use std::fmt::Write;

/// The least extent of a rectangle, pixels: as in the raster.
const LEAST: f64 = 0.5;

impl Picture {
    /// The picture as an SVG document, which may also stand within HTML.
    #[must_use]
    pub fn svg(&self) -> String {
        let (width, height) = (self.width, self.height);
        let title = escaped(&self.title);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"Roboto, Arial, Helvetica, sans-serif\">\
             <title>{title}</title>\n"
        );
        let mut shapes = self.shapes.iter().peekable();
        while let Some(shape) = shapes.next() {
            match shape {
                Shape::Fill { rect, colour, alpha } => {
                    // Rectangles of one look that follow each other are one element: a heat map has thousands.
                    let mut outline = String::new();
                    rectangle(&mut outline, *rect);
                    while let Some(Shape::Fill { rect, .. }) = shapes.next_if(|next| {
                        matches!(next, Shape::Fill { colour: c, alpha: a, .. } if c == colour && a == alpha)
                            && *alpha >= 1.0
                    }) {
                        rectangle(&mut outline, *rect);
                    }
                    element(&mut svg, "path", &format!("d=\"{outline}\""), &filled(*colour, *alpha));
                }
                Shape::Polygon { corners, colour, alpha } => {
                    let points = format!("points=\"{}\"", points(corners));
                    element(&mut svg, "polygon", &points, &filled(*colour, *alpha));
                }
                Shape::Circle { centre, radius, colour } => {
                    let place = format!("cx=\"{}\" cy=\"{}\" r=\"{}\"", n(centre.0), n(centre.1), n(*radius));
                    element(&mut svg, "circle", &place, &filled(*colour, 1.0));
                }
                Shape::Path { points: through, width, colour, dash } => {
                    let dash =
                        dash.map_or(String::new(), |(on, off)| format!(" stroke-dasharray=\"{on} {off}\""));
                    // Ends as in the raster: half a width beyond where it is solid.
                    let ends = if dash.is_empty() { " stroke-linecap=\"square\"" } else { "" };
                    let place = format!(
                        "points=\"{}\" fill=\"none\" stroke-width=\"{}\"{dash}{ends}",
                        points(through),
                        n(*width)
                    );
                    element(&mut svg, "polyline", &place, &look("stroke", *colour));
                }
                Shape::Text { left, baseline, kind, text } => {
                    let bold = if kind.bold { " font-weight=\"bold\"" } else { "" };
                    let place = format!(
                        "x=\"{}\" y=\"{}\" font-size=\"{}\" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\"{bold}",
                        n(*left),
                        n(*baseline),
                        n(kind.size),
                        n(kind.width(text))
                    );
                    if !text.is_empty() {
                        let look = look("fill", kind.colour);
                        // Writing to a string cannot fail.
                        let _ = writeln!(svg, "<text {place} {look}>{}</text>", escaped(text));
                    }
                }
            }
        }
        svg + "</svg>\n"
    }
}

fn element(svg: &mut String, name: &str, place: &str, look: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "<{name} {place} {look}/>");
}

fn rectangle(outline: &mut String, rect: Rect) {
    let (width, height) = (rect.width().max(LEAST), rect.height().max(LEAST));
    let _ = write!(outline, "M{} {}h{}v{}h{}z", n(rect.left), n(rect.top), n(width), n(height), n(-width));
}

fn points(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", n(*x), n(*y))).collect::<Vec<_>>().join(" ")
}

/// A number to two digits, kept where every reader can follow.
fn n(value: f64) -> f64 {
    let value = if value.is_finite() { value.clamp(-1e5, 1e5) } else { 0.0 };
    // No negative zero.
    (value * 100.0).round() / 100.0 + 0.0
}

fn filled(colour: RGBColor, alpha: f64) -> String {
    let opacity = if alpha < 1.0 { format!(" fill-opacity=\"{}\"", n(alpha)) } else { String::new() };
    look("fill", colour) + &opacity
}

/// A colour; those that a dark page must change have a name besides, which its style sheet overrides.
fn look(what: &str, colour: RGBColor) -> String {
    let class = match colour {
        WHITE => "paper",
        INK => "ink",
        SOFT => "soft",
        AXIS => "axis",
        GRID => "grid",
        BLACK => "black",
        VIOLET => "violet",
        _ => "",
    };
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}-{what}\"") };
    format!("{what}=\"#{:02x}{:02x}{:02x}\"{class}", colour.0, colour.1, colour.2)
}

/// Text as XML takes it, which knows no control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::canvas::{Anchor, Canvas};
    use crate::chart::font::Type;
    use crate::chart::palette::BLUE;

    #[test]
    fn hostile_text_is_text() {
        let mut canvas = Canvas::new(100, 50, "</title><script>alert(1)</script>".into());
        let hostile = "a\u{1b}[31m\"'<b>&\u{0}";
        canvas.text(1.0, 20.0, Anchor::Left, Type::regular(16.0, INK), hostile);
        let svg = canvas.finish().svg();
        assert!(svg.contains("<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;</title>"), "{svg}");
        assert!(svg.contains(">a\u{fffd}[31m&quot;&#39;&lt;b&gt;&amp;\u{fffd}</text>"), "{svg}");
        assert!(!svg.chars().any(|c| c.is_control() && c != '\n'));
    }

    #[test]
    fn rectangles_of_one_look_are_one_element() {
        let mut canvas = Canvas::new(100, 50, String::new());
        for place in 0..1000 {
            let left = f64::from(place) / 10.0;
            canvas.fill(Rect { left, top: 0.0, right: left + 0.1, bottom: 10.0 }, BLUE, 1.0);
        }
        let svg = canvas.finish().svg();
        assert_eq!(svg.matches("<path").count(), 2, "paper and bars");
        assert_eq!(svg.matches('z').count(), 1001);
        // Where they let the ground through, each counts.
        let mut canvas = Canvas::new(100, 50, String::new());
        let rect = Rect { left: 0.0, top: 0.0, right: 1.0, bottom: 1.0 };
        canvas.fill(rect, BLUE, 0.5);
        canvas.fill(rect, BLUE, 0.5);
        assert_eq!(canvas.finish().svg().matches("<path").count(), 3);
    }
}
