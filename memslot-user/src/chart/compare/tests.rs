//! What is drawn, by colour, and from which figures.

use super::*;
use crate::chart::Format;
use crate::chart::canvas::Shape;
use crate::chart::palette::{GREEN, PURPLE, VERMILLION};
use crate::compare::{Foretold, Interval, Options, Unit, compare, simulated};
use plotters::style::RGBColor;

fn has(image: &Picture, colour: RGBColor) -> bool {
    let image = image.raster().unwrap();
    image.rgb.chunks_exact(3).any(|pixel| (pixel[0], pixel[1], pixel[2]) == (colour.0, colour.1, colour.2))
}

#[test]
fn every_chart_is_drawn_where_it_has_something_to_show() {
    let (before, after) = simulated::slower(&[3, 53], 8);
    let comparison = compare(&before.0, &after.0, &Options::default(), &|_| ());
    let images = draw_all(&comparison, [&before.1, &after.1]);
    if let Some(dir) = std::env::var_os("MEMSLOT_CHARTS") {
        for (name, image) in &images {
            image.save(&std::path::Path::new(&dir).join(name.clone() + ".png"), Format::Png).unwrap();
        }
    }
    let names: Vec<&str> = images.iter().map(|(name, _)| name.as_str()).collect();
    let all = ["ecdf", "shift", "change", "size", "share-of-time", "search-length"];
    assert_eq!(names, all.map(|name| format!("compare-page-fault-{name}")));
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
    let images = draw_all(&few, [&before.1, &after.1]);
    assert!(!images.iter().any(|(name, _)| name.contains("size")), "{}", images.len());
    let nothing = compare(&[], &[], &Options::default(), &|_| ());
    assert!(draw_all(&nothing, [&Pooled::default(), &Pooled::default()]).is_empty());
}

fn texts(picture: &Picture) -> String {
    let texts = picture.shapes.iter().filter_map(|shape| match shape {
        Shape::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_was_foretold_is_drawn_beside_what_was_observed_and_instructions_are_called_so() {
    let (before, after) = simulated::slower(&[3, 53], 8);
    let mut comparison = compare(&before.0, &after.0, &Options::default(), &|_| ());
    let interval = |value: f64| Some(Interval { value, low: value * 0.9, high: value * 1.1 });
    comparison.foretold = [3, 53]
        .into_iter()
        .flat_map(|size| ["p50", "p90", "p99"].map(|figure| (size, figure)))
        .map(|(size, figure)| Foretold {
            probe: Probe::PageFault,
            size,
            engine: "linear",
            figure,
            unit: Unit::Ns,
            before: 2000.0,
            by_slope: interval(2400.0),
            by_clock: None,
            after: 2500.0,
        })
        .collect();
    let drawn = |comparison: &Comparison| {
        let images = draw_all(comparison, [&before.1, &after.1]);
        images.into_iter().find(|(name, _)| name == "compare-page-fault-prediction").unwrap().1
    };
    let picture = drawn(&comparison);
    assert!([BLUE, ORANGE, PURPLE].into_iter().all(|colour| has(&picture, colour)));
    assert!(texts(&picture).contains(" µs") && !texts(&picture).contains("instructions"));
    comparison.exact = true;
    assert!(
        texts(&drawn(&comparison)).contains("instructions") && !texts(&drawn(&comparison)).contains("2 µs")
    );
}
