//! What everything looks like. The colours are those of Okabe and Ito (2008), which people with any
//! of the common kinds of colour blindness can tell apart; shape and dash repeat what colour says.
//! Their yellow is left out: thin lines of it vanish on white.

use crate::digest::Group;
use plotters::style::RGBColor;

pub(crate) const BLACK: RGBColor = RGBColor(0, 0, 0);
pub(crate) const ORANGE: RGBColor = RGBColor(0xe6, 0x9f, 0x00);
pub(crate) const SKY: RGBColor = RGBColor(0x56, 0xb4, 0xe9);
pub(crate) const GREEN: RGBColor = RGBColor(0x00, 0x9e, 0x73);
pub(crate) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub(crate) const VERMILLION: RGBColor = RGBColor(0xd5, 0x5e, 0x00);
pub(crate) const PURPLE: RGBColor = RGBColor(0xcc, 0x79, 0xa7);

/// Darker than the others by far, so that no kind of colour blindness takes it for one of them.
pub(crate) const VIOLET: RGBColor = RGBColor(0x4b, 0x1d, 0x6b);

/// Paper.
pub(crate) const WHITE: RGBColor = RGBColor(0xff, 0xff, 0xff);
/// Paper that stays as light where a page is dark; not quite white, so that a reader can tell.
pub(crate) const SHEET: RGBColor = RGBColor(0xfd, 0xfd, 0xfd);
/// Grid lines on it.
pub(crate) const SHEET_GRID: RGBColor = RGBColor(0xe3, 0xe3, 0xe3);
/// Text.
pub(crate) const INK: RGBColor = RGBColor(0x1a, 0x1a, 0x1a);
/// Text of second rank.
pub(crate) const SOFT: RGBColor = RGBColor(0x55, 0x55, 0x55);
/// Axes.
pub(crate) const AXIS: RGBColor = RGBColor(0x77, 0x77, 0x77);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
/// What has no colour of its own.
pub(crate) const GREY: RGBColor = RGBColor(0x8c, 0x8c, 0x8c);

/// Shape of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Diamond,
    Up,
    Down,
    Cross,
}

/// Lengths of dash and gap, logical pixels; nothing for a solid line.
pub(crate) type Dash = Option<(f64, f64)>;

/// How a series looks, wherever it appears.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Look {
    pub(crate) colour: RGBColor,
    pub(crate) shape: Marker,
    pub(crate) dash: Dash,
}

/// The kernel's own search, as observed.
pub(crate) const KERNEL: Look = Look { colour: BLACK, shape: Marker::Circle, dash: None };

/// The look of an engine, by its name.
pub(crate) fn engine(name: &str) -> Look {
    let (colour, shape, dash) = match name {
        "linear" => (VERMILLION, Marker::Square, None),
        "linear_by_size" => (ORANGE, Marker::Diamond, Some((10.0, 4.0))),
        "sorted_array" => (SKY, Marker::Up, Some((3.0, 3.0))),
        "wbtree" => (GREEN, Marker::Down, Some((14.0, 4.0))),
        "rbtree" => (BLUE, Marker::Cross, Some((6.0, 3.0))),
        "interval_tree" => (PURPLE, Marker::Circle, Some((2.0, 4.0))),
        "eytzinger" => (VIOLET, Marker::Diamond, None),
        "sorted_array_kernel" => (SOFT, Marker::Up, Some((8.0, 3.0))),
        "btreemap" => (GREY, Marker::Square, Some((2.0, 2.0))),
        _ => (GREY, Marker::Circle, Some((4.0, 4.0))),
    };
    Look { colour, shape, dash }
}

/// The colour of a kind of call.
pub(crate) fn group(group: Group) -> RGBColor {
    match group {
        Group::LastUsed => SKY,
        Group::Searched | Group::MemoryTable => BLUE,
        Group::NoSlot | Group::Declined => ORANGE,
        Group::MmioCached | Group::Undercommit => PURPLE,
        Group::Boosted | Group::Iotlb => GREEN,
        Group::Failed => VERMILLION,
        Group::NotFollowed | Group::Unfollowed | Group::Shadow | Group::NoYield => GREY,
    }
}

/// Colours of a heat map from few to many: ever darker, so that no kind of colour blindness and no
/// printer confuses them.
pub(crate) fn ramp(share: f64) -> RGBColor {
    const STOPS: [(f64, RGBColor); 5] = [
        (0.0, RGBColor(0xd3, 0xe9, 0xf7)),
        (0.35, SKY),
        (0.65, BLUE),
        (0.9, VIOLET),
        (1.0, RGBColor(0x1c, 0x06, 0x2b)),
    ];
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let above = STOPS.iter().position(|stop| stop.0 >= share).unwrap_or(0).max(1);
    let ((from, low), (to, high)) = (STOPS[above - 1], STOPS[above]);
    let part = (share - from) / (to - from);
    let mix = |low: u8, high: u8| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
        let byte = (f64::from(low) + (f64::from(high) - f64::from(low)) * part).round() as u8;
        byte
    };
    RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

/// Looks of recordings and vCPUs, which have no order of their own, by place.
pub(crate) fn numbered(place: usize) -> Look {
    const LOOKS: [Look; 6] = [
        Look { colour: BLUE, shape: Marker::Circle, dash: None },
        Look { colour: ORANGE, shape: Marker::Square, dash: Some((10.0, 4.0)) },
        Look { colour: GREEN, shape: Marker::Diamond, dash: Some((3.0, 3.0)) },
        Look { colour: PURPLE, shape: Marker::Up, dash: Some((14.0, 4.0)) },
        Look { colour: SKY, shape: Marker::Down, dash: Some((6.0, 3.0)) },
        Look { colour: VERMILLION, shape: Marker::Cross, dash: Some((2.0, 4.0)) },
    ];
    LOOKS[place % LOOKS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heat_map_only_ever_darkens() {
        let luminance =
            |c: RGBColor| 0.2126 * f64::from(c.0) + 0.7152 * f64::from(c.1) + 0.0722 * f64::from(c.2);
        let steps: Vec<f64> = (0..=20_u8).map(|step| luminance(ramp(f64::from(step) / 20.0))).collect();
        assert!(steps.windows(2).all(|pair| pair[0] > pair[1] + 2.0), "{steps:?}");
        assert_eq!((ramp(f64::NAN), ramp(7.0)), (ramp(0.0), ramp(1.0)));
    }

    #[test]
    fn engines_differ_in_colour_and_in_shape_or_dash() {
        let names = ["linear", "linear_by_size", "sorted_array", "wbtree", "rbtree", "interval_tree"];
        let looks: Vec<Look> = names.map(engine).into_iter().chain([KERNEL]).collect();
        for (place, one) in looks.iter().enumerate() {
            for other in &looks[place + 1..] {
                assert_ne!(one.colour, other.colour);
                assert_ne!((one.shape, one.dash), (other.shape, other.dash));
            }
        }
    }
}
