//! What charts of cells share: how dark a number is, and the key that says so.

use super::float;
use crate::chart::canvas::{Anchor, Canvas, Rect};
use crate::chart::page::SMALL;
use crate::chart::{palette, text};
use plotters::style::RGBColor;

/// Shades; more could not be told apart.
const SHADES: u64 = 24;

/// How dark a number is, by its logarithm.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heat {
    most: u64,
}

impl Heat {
    /// Of numbers from 1 to `most`.
    pub(super) fn new(most: u64) -> Self {
        Self { most: most.max(1) }
    }

    /// The shade of a number, from 0.
    pub(super) fn shade(self, count: u64) -> u64 {
        let full = float(self.most).ln();
        if full <= 0.0 {
            return SHADES - 1;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
        let shade = (float(count.max(1)).ln() / full * float(SHADES - 1)).round() as u64;
        shade.min(SHADES - 1)
    }

    /// The colour of a shade.
    pub(super) fn colour(shade: u64) -> RGBColor {
        palette::ramp(float(shade) / float(SHADES - 1))
    }

    /// Room that the key takes.
    pub(super) const KEY: f64 = 34.0;

    /// Says which colour is which number, at the top of a place.
    pub(super) fn key(self, canvas: &mut Canvas, place: Rect, words: &str) {
        const WIDTH: f64 = 240.0;
        let middle = place.top + 10.0;
        let name = format!("{words}:  1");
        canvas.text_at(place.left, middle, Anchor::Left, SMALL, &name);
        let left = place.left + SMALL.width(&name) + 10.0;
        let step = WIDTH / float(SHADES);
        // Where every number is 1 there is one shade.
        for shade in 0..SHADES {
            let from = left + float(shade) * step;
            let bar = Rect { left: from, right: from + step, top: middle - 7.0, bottom: middle + 7.0 };
            canvas.fill(bar, Self::colour(if self.most > 1 { shade } else { SHADES - 1 }), 1.0);
        }
        canvas.text_at(left + WIDTH + 10.0, middle, Anchor::Left, SMALL, &text::count(self.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_darkest_and_a_single_call_is_to_be_seen() {
        let heat = Heat::new(1000);
        assert_eq!((heat.shade(1), heat.shade(1000), heat.shade(5000)), (0, SHADES - 1, SHADES - 1));
        assert!(heat.shade(10) > 0 && heat.shade(100) > heat.shade(10));
        assert_eq!(Heat::new(1).shade(1), SHADES - 1);
        assert_ne!(Heat::colour(0), palette::WHITE);
    }
}
