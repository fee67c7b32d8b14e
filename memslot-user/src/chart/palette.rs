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
pub(crate) enum Shape {
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
    pub(crate) shape: Shape,
    pub(crate) dash: Dash,
}

/// The kernel's own search, as observed.
pub(crate) const KERNEL: Look = Look { colour: BLACK, shape: Shape::Circle, dash: None };

/// The look of an engine, by its name.
pub(crate) fn engine(name: &str) -> Look {
    let (colour, shape, dash) = match name {
        "linear" => (VERMILLION, Shape::Square, None),
        "linear_by_size" => (ORANGE, Shape::Diamond, Some((10.0, 4.0))),
        "sorted_array" => (SKY, Shape::Up, Some((3.0, 3.0))),
        "wbtree" => (GREEN, Shape::Down, Some((14.0, 4.0))),
        "rbtree" => (BLUE, Shape::Cross, Some((6.0, 3.0))),
        "interval_tree" => (PURPLE, Shape::Circle, Some((2.0, 4.0))),
        "eytzinger" => (VIOLET, Shape::Diamond, None),
        "sorted_array_kernel" => (SOFT, Shape::Up, Some((8.0, 3.0))),
        "btreemap" => (GREY, Shape::Square, Some((2.0, 2.0))),
        _ => (GREY, Shape::Circle, Some((4.0, 4.0))),
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

/// Looks of vCPUs, which have no order of their own, by place.
pub(crate) fn numbered(place: usize) -> Look {
    const LOOKS: [Look; 6] = [
        Look { colour: BLUE, shape: Shape::Circle, dash: None },
        Look { colour: ORANGE, shape: Shape::Square, dash: Some((10.0, 4.0)) },
        Look { colour: GREEN, shape: Shape::Diamond, dash: Some((3.0, 3.0)) },
        Look { colour: PURPLE, shape: Shape::Up, dash: Some((14.0, 4.0)) },
        Look { colour: SKY, shape: Shape::Down, dash: Some((6.0, 3.0)) },
        Look { colour: VERMILLION, shape: Shape::Cross, dash: Some((2.0, 4.0)) },
    ];
    LOOKS[place % LOOKS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

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
