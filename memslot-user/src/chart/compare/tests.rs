//! What is drawn, by colour, and from which figures.

use super::*;
use crate::chart::palette::{GREEN, VERMILLION};
use crate::compare::{Options, compare, simulated};
use crate::stats::Sample;
use plotters::style::RGBColor;

fn has(image: &Image, colour: RGBColor) -> bool {
    image.rgb.chunks_exact(3).any(|pixel| (pixel[0], pixel[1], pixel[2]) == (colour.0, colour.1, colour.2))
}

#[test]
fn the_line_of_a_distribution_holds_its_shares() {
    let mut sample = Sample::default();
    for value in [10, 20, 20, 40] {
        sample.add(value);
    }
    assert_eq!(ecdf::points(&sample), [(10.0, 0.25), (20.0, 0.75), (40.0, 1.0)]);
    let mut many = Sample::default();
    (0..100_000).for_each(|value| many.add(value));
    assert!(ecdf::points(&many).len() <= 1000);
    assert!(ecdf::points(&Sample::default()).is_empty());
}

#[test]
fn every_chart_is_drawn_where_it_has_something_to_show() {
    let (before, after) = simulated::slower(&[3, 53], 8);
    let comparison = compare(&before.0, &after.0, &Options::default(), &|_| ());
    let images = draw_all(&comparison, [&before.1, &after.1]).unwrap();
    if let Some(dir) = std::env::var_os("MEMSLOT_CHARTS") {
        for (name, image) in &images {
            image.save(&std::path::Path::new(&dir).join(name)).unwrap();
        }
    }
    let names: Vec<&str> = images.iter().map(|(name, _)| name.as_str()).collect();
    let all = ["ecdf", "shift", "change", "size", "share-of-time", "search-length"];
    assert_eq!(names, all.map(|name| format!("compare-page-fault-{name}.png")));
    for (name, image) in &images {
        let colours = if name.contains("change") { [VERMILLION, VERMILLION] } else { [BLUE, ORANGE] };
        let shift = name.contains("shift");
        assert!(has(image, colours[0]), "{name}");
        assert!(shift || has(image, colours[1]) || name.contains("share"), "{name}");
        assert!(!has(image, GREEN), "{name}: nothing is faster");
    }
    // One size makes no chart over sizes, and nothing makes none.
    let (before, after) = simulated::slower(&[53], 2);
    let few = compare(&before.0, &after.0, &Options::default(), &|_| ());
    let images = draw_all(&few, [&before.1, &after.1]).unwrap();
    assert!(!images.iter().any(|(name, _)| name.contains("size")), "{}", images.len());
    let nothing = compare(&[], &[], &Options::default(), &|_| ());
    assert!(draw_all(&nothing, [&Pooled::default(), &Pooled::default()]).unwrap().is_empty());
}
