//! The distribution before and after, one over the other.

use super::{Job, SIDES};
use crate::chart::panels::{Item, Panel, Panels};
use crate::chart::scale::Axis;
use crate::chart::series::distribution;
use crate::chart::{Picture, text};
use crate::compare::{Kind, calls_needed, sized};

/// Panels at most; more could not be told apart.
const MOST: usize = 12;

pub(super) fn draw(job: &Job<'_>) -> Option<Picture> {
    let mut kinds: Vec<(u64, Kind)> = job.pooled[0]
        .latency
        .keys()
        .chain(job.pooled[1].latency.keys())
        .filter(|key| key.0 == job.probe)
        .map(|key| (key.1, key.2))
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let sample =
        |side: usize, (size, kind): (u64, Kind)| job.pooled[side].latency.get(&(job.probe, size, kind));
    kinds.retain(|key| {
        (0..2).any(|side| sample(side, *key).is_some_and(|all| all.count() >= calls_needed(500)))
    });
    let panels: Vec<Panel> = kinds
        .iter()
        .take(MOST)
        .filter_map(|key| {
            let lines = [0, 1].map(|side| sample(side, *key).map(distribution::ecdf).unwrap_or_default());
            let ends = lines.iter().flatten().map(|point| point.0);
            let (low, high) = ends.fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
            let items: Vec<Item> = lines
                .into_iter()
                .zip(SIDES)
                .filter(|(points, _)| !points.is_empty())
                .map(|(points, (_, look))| Item::Line { points, look, width: 2.5, marked: false })
                .collect();
            let (x, x_name) = job.latencies("latency of one call", low, high);
            (!items.is_empty()).then(|| Panel {
                heading: format!("{}, {}", key.1.name(), sized(job.probe, key.0)),
                note: None,
                x,
                x_name,
                y: Axis::even(1.0, text::share),
                y_name: "share of the calls that took no longer".into(),
                items,
            })
        })
        .collect();
    if panels.is_empty() {
        return None;
    }
    let left_out = if kinds.len() > MOST {
        format!(" The first {MOST} of {} kinds.", kinds.len())
    } else {
        String::new()
    };
    let page = job.page(
        format!("How long {} take, before and after", job.subject()),
        &format!("Distribution of the calls of all runs together, from 0.1 to 99.9 %.{left_out}"),
    );
    let columns = panels.len().min(3);
    job.draw(&Panels { panels, columns, least_height: 420.0 }, &page)
}
