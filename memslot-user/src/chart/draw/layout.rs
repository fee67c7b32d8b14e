//! Slots along the guest's addresses, a strip for each VM, coloured by accesses.

use super::heat::Heat;
use super::{Job, float};
use crate::chart::canvas::{Anchor, Canvas, Rect};
use crate::chart::font::Type;
use crate::chart::page::{HEADING, Key, SMALL};
use crate::chart::palette::{AXIS, GREY, SHEET};
use crate::chart::series::layout::{self as series, Map};
use crate::chart::{Picture, text};
use plotters::style::RGBColor;

/// Words above a strip, the strip, addresses and words below.
const HEAD: f64 = 36.0;
const STRIP: (f64, f64) = (64.0, 130.0);
const FOOT: f64 = 78.0;
/// Strips at most; the subtitle says when there are more.
const MOST: usize = 24;
/// Least width of a slot; where slots lie over each other, that of the most faults is on top.
const LEAST: f64 = 2.5;
/// A slot that nobody accessed.
const UNTOUCHED: RGBColor = RGBColor(0xe2, 0xe2, 0xe2);
/// Text on a light slot, also where a page is dark.
const ON_LIGHT: RGBColor = RGBColor(0x1b, 0x1b, 0x1b);

pub(crate) fn draw(job: &Job<'_>) -> Picture {
    let maps = series::series(job.digests);
    let more =
        if maps.len() > MOST { format!(" The first {MOST} of {}.", maps.len()) } else { String::new() };
    let subtitle = format!(
        "Memory slots by guest physical address, as they stood when there were the most of them; the darker, the more \
         faults fell on the slot. Wide gaps are cut short where the strip is broken. Numbers are slot ids, where there is \
         room.{more}"
    );
    let mut page = job.page("Where in the guest's memory the faults fall".into(), &subtitle);
    if maps.is_empty() {
        return job.empty(&page, "no slots: the recording holds no layout".into());
    }
    page.legend = vec![(Key::Solid(UNTOUCHED), "no fault".into())];
    let maps = maps.get(..MOST).unwrap_or(&maps);
    let most = maps.iter().flat_map(|map| &map.slots).map(|(_, accesses)| *accesses).max().unwrap_or(1);
    let heat = Heat::new(most);
    let count = float(maps.len() as u64);
    let fixed = HEAD + FOOT;
    let (mut canvas, area) =
        page.begin(job.size.width, job.size.height, Heat::KEY + count * (fixed + STRIP.0));
    heat.key(&mut canvas, area, "faults on a slot");
    let each = fixed + ((area.height() - Heat::KEY) / count - fixed).clamp(STRIP.0, STRIP.1);
    let mut top = area.top + Heat::KEY;
    for map in maps {
        strip(&mut canvas, map, heat, Rect { top, bottom: top + each, ..area });
        top += each;
    }
    canvas.finish()
}

fn strip(canvas: &mut Canvas, map: &Map, heat: Heat, place: Rect) {
    let mut heading = format!(
        "{}: {}, {} mapped, {} on them",
        map.heading,
        text::counted(map.slots.len() as u64, "slot"),
        text::bytes(map.bytes),
        text::counted(map.accesses, "fault")
    );
    if map.no_slot > 0 {
        heading += &format!(", {} on none", text::count(map.no_slot));
    }
    canvas.text(place.left, place.top + 20.0, Anchor::Left, HEADING, &HEADING.fit(&heading, place.width()));
    let strip = Rect { top: place.top + HEAD, bottom: place.bottom - FOOT, ..place };
    for piece in &map.pieces {
        let rect = Rect { left: strip.x(piece.shares.0), right: strip.x(piece.shares.1), ..strip };
        canvas.sheet(rect);
    }
    slots(canvas, map, heat, strip);
    for piece in &map.pieces {
        let (left, right) = (strip.x(piece.shares.0), strip.x(piece.shares.1));
        for y in [strip.top, strip.bottom] {
            canvas.horizontal((left, right), y, 1.0, AXIS);
        }
        canvas.vertical(left, (strip.top, strip.bottom + 6.0), 1.0, AXIS);
        canvas.vertical(right, (strip.top, strip.bottom), 1.0, AXIS);
    }
    addresses(canvas, map, strip);
    let words = words(map);
    canvas.text(place.left, strip.bottom + 50.0, Anchor::Left, SMALL, &SMALL.fit(&words, place.width()));
}

/// By shade, as an SVG has one element for each; then the ids.
fn slots(canvas: &mut Canvas, map: &Map, heat: Heat, strip: Rect) {
    let mut drawn: Vec<(Option<u64>, Rect, i32)> = map
        .slots
        .iter()
        .map(|(slot, accesses)| {
            let (from, to) = map.place(slot);
            let (left, right) = (strip.x(from), strip.x(to));
            // Neighbours are told apart where there is room; a hot slot is seen however small it is.
            let right = if right - left > 4.0 { right - 1.0 } else { right.max(left + LEAST) };
            let shade = (*accesses > 0).then(|| heat.shade(*accesses));
            (shade, Rect { left, right, top: strip.top + 2.0, bottom: strip.bottom - 2.0 }, slot.id)
        })
        .collect();
    drawn.sort_by_key(|(shade, ..)| *shade);
    for (shade, rect, _) in &drawn {
        canvas.fill(*rect, shade.map_or(UNTOUCHED, Heat::colour), 1.0);
    }
    for (shade, rect, id) in &drawn {
        let label = id.to_string();
        if SMALL.width(&label) + 6.0 < rect.width() {
            let colour = shade.map_or(UNTOUCHED, Heat::colour);
            let is_light = u32::from(colour.0) + u32::from(colour.1) + u32::from(colour.2) > 380;
            let kind = Type::regular(SMALL.size, if is_light { ON_LIGHT } else { SHEET });
            let middle = f64::midpoint(rect.left, rect.right);
            canvas.text_at(middle, strip.y(0.5), Anchor::Middle, kind, &label);
        }
    }
}

/// The first address of each piece, of wide ones also the end; and a mark where the strip is broken.
fn addresses(canvas: &mut Canvas, map: &Map, strip: Rect) {
    let mut taken = f64::NEG_INFINITY;
    for (place, piece) in map.pieces.iter().enumerate() {
        let (left, right) = (strip.x(piece.shares.0), strip.x(piece.shares.1));
        let label = text::address(piece.addresses.0);
        let from = left.min(strip.right - SMALL.width(&label));
        if from > taken + 14.0 {
            canvas.text(from, strip.bottom + 24.0, Anchor::Left, SMALL, &label);
            taken = from + SMALL.width(&label);
        }
        let end = text::address(piece.addresses.1.saturating_sub(1));
        if right - SMALL.width(&end) > taken + 14.0 {
            canvas.text(right, strip.bottom + 24.0, Anchor::Right, SMALL, &end);
            taken = right;
        }
        if place > 0 {
            let middle = strip.y(0.5);
            let at = left - 9.0;
            for shift in [-3.0, 3.0] {
                let points = [(at + shift - 2.0, middle + 9.0), (at + shift + 2.0, middle - 9.0)];
                canvas.path(&points, 1.5, GREY, None);
            }
        }
    }
}

fn words(map: &Map) -> String {
    let mut by_accesses: Vec<_> = map.slots.iter().filter(|(_, accesses)| *accesses > 0).collect();
    by_accesses.sort_by_key(|(slot, accesses)| (std::cmp::Reverse(*accesses), slot.id));
    let top: Vec<String> = by_accesses
        .iter()
        .take(4)
        .map(|(slot, accesses)| {
            format!(
                "slot {} at {} ({}) {}",
                slot.id,
                text::address(slot.base_gfn.0.saturating_mul(4096)),
                text::bytes(slot.npages.saturating_mul(4096)),
                super::of(*accesses, map.accesses)
            )
        })
        .collect();
    let mut words = if top.is_empty() {
        "No fault on any slot was recorded as an event.".to_owned()
    } else {
        format!("Most faults: {}.", top.join(", "))
    };
    if map.removals > 0 {
        words += &format!(" {} slots were moved or deleted meanwhile.", text::count(map.removals));
    }
    words
}
