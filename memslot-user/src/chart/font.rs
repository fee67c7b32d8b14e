//! The embedded font and how wide its text is.

use plotters::style::{
    FontFamily, FontStyle, IntoFont, RGBColor, TextStyle,
    text_anchor::{HPos, Pos, VPos},
};
use std::sync::OnceLock;

/// The family's name within plotters.
const FAMILY: &str = "memslot-roboto";
static REGULAR: &[u8] = include_bytes!("../../assets/fonts/Roboto-Regular.ttf");
static BOLD: &[u8] = include_bytes!("../../assets/fonts/Roboto-Bold.ttf");

/// plotters sizes a font by its line height; Roboto's is 1900 + 500 units of 2048 to the em.
const LINE_PER_EM: f64 = 2400.0 / 2048.0;

/// Registers the font once; whether plotters took it.
pub(crate) fn register() -> bool {
    static DONE: OnceLock<bool> = OnceLock::new();
    *DONE.get_or_init(|| {
        plotters::style::register_font(FAMILY, FontStyle::Normal, REGULAR).is_ok()
            && plotters::style::register_font(FAMILY, FontStyle::Bold, BOLD).is_ok()
    })
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    /// Size of the em, logical pixels.
    pub(crate) size: f64,
    /// Bold instead of regular.
    pub(crate) bold: bool,
    /// Colour.
    pub(crate) colour: RGBColor,
}

impl Type {
    pub(crate) const fn regular(size: f64, colour: RGBColor) -> Self {
        Self { size, bold: false, colour }
    }

    pub(crate) const fn bold(size: f64, colour: RGBColor) -> Self {
        Self { size, bold: true, colour }
    }

    pub(crate) const fn in_colour(self, colour: RGBColor) -> Self {
        Self { colour, ..self }
    }

    /// Distance between the baselines of two lines.
    pub(crate) fn line(self) -> f64 {
        (self.size * 1.35).round()
    }

    /// Height of a capital letter (1456 of 2048 units).
    pub(crate) fn capital(self) -> f64 {
        self.size * 1456.0 / 2048.0
    }

    /// plotters' style for a bitmap that has `zoom` pixels to a logical one, and the distance from
    /// the point at which plotters is told to draw down to the baseline, in the bitmap's pixels.
    pub(crate) fn style(self, zoom: f64) -> (TextStyle<'static>, f64) {
        let height = self.size * LINE_PER_EM * zoom;
        let style = if self.bold { FontStyle::Bold } else { FontStyle::Normal };
        let font = (FontFamily::Name(FAMILY), height, style).into_font();
        (font.color(&self.colour).pos(Pos::new(HPos::Left, VPos::Top)), height / 2.0)
    }

    /// Width of a text, logical pixels; 0 where the font is missing, which drawing then reports.
    pub(crate) fn width(self, text: &str) -> f64 {
        register();
        // Measured at a large size, because plotters truncates to whole pixels.
        const ZOOM: f64 = 8.0;
        let (style, _) = self.style(ZOOM);
        style.font.layout_box(text).map_or(0.0, |((left, _), (right, _))| f64::from(right - left) / ZOOM)
    }

    /// The text, shortened with an ellipsis so that it is no wider than `room`.
    pub(crate) fn fit(self, text: &str, room: f64) -> String {
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(400).collect();
        if self.width(&text) <= room {
            return text;
        }
        let mut characters: Vec<char> = text.chars().collect();
        while characters.pop().is_some() {
            let shorter: String = characters.iter().collect::<String>().trim_end().to_owned() + "…";
            if self.width(&shorter) <= room {
                return shorter;
            }
        }
        String::new()
    }

    /// The text in lines no wider than `room`, broken at spaces.
    pub(crate) fn wrap(self, text: &str, room: f64) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            let word = self.fit(word, room);
            match lines.last_mut() {
                Some(line) if self.width(&format!("{line} {word}")) <= room => {
                    line.push(' ');
                    line.push_str(&word);
                }
                _ => lines.push(word),
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::style::colors::BLACK;

    const TYPE: Type = Type::regular(20.0, BLACK);

    #[test]
    fn the_em_is_the_size_that_was_asked_for() {
        // Roboto's digits are 1150 of 2048 units wide.
        let width = TYPE.width("0000000000");
        assert!((width - 10.0 * 20.0 * 1150.0 / 2048.0).abs() < 1.0, "{width}");
        assert!(Type::bold(20.0, BLACK).width("slots") > TYPE.width("slots"));
    }

    #[test]
    fn long_text_is_shortened_and_wrapped_to_the_room() {
        let text = "a recording whose label tells a whole story of its own";
        let fitted = TYPE.fit(text, 150.0);
        assert!(fitted.ends_with('…') && TYPE.width(&fitted) <= 150.0, "{fitted}");
        assert_eq!(TYPE.fit("short", 150.0), "short");
        assert_eq!(TYPE.fit("a\nb", 150.0), "a b");
        let lines = TYPE.wrap(text, 150.0);
        assert!(lines.len() > 2 && lines.iter().all(|line| TYPE.width(line) <= 150.0));
        assert_eq!(lines.join(" "), text);
        assert_eq!(TYPE.fit("anything", 0.0), "");
    }
}
