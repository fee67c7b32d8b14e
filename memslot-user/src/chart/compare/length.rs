//! How far the kernel searches, before and after.

use super::{Job, SIDES};
use crate::chart::rows::{Mark, Row, Rows, Section};
use crate::chart::scale::Axis;
use crate::chart::series::bins;
use crate::chart::{Picture, text};
use crate::compare::sized;
use crate::replay::Lengths;

pub(super) fn draw(job: &Job<'_>) -> Option<Picture> {
    let mut sizes: Vec<u64> = job
        .pooled
        .iter()
        .flat_map(|side| &side.visited)
        .filter(|((probe, _), lengths)| *probe == job.probe && lengths.total() > 0)
        .map(|((_, size), _)| *size)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let of = |side: usize, size: u64| job.pooled[side].visited.get(&(job.probe, size));
    let longest = sizes
        .iter()
        .flat_map(|size| {
            (0..2).filter_map(|side| of(side, *size)?.0.last_key_value().map(|(length, _)| *length))
        })
        .max();
    let longest = longest?;
    let axis = Axis::length(longest);
    let sections = sizes.iter().map(|size| Section {
        heading: sized(job.probe, *size),
        note: None,
        rows: SIDES
            .into_iter()
            .enumerate()
            .filter_map(|(side, (name, look))| {
                let lengths = of(side, *size).filter(|lengths| lengths.total() > 0)?;
                let marks = vec![
                    Mark::Bars(bars(lengths, &axis), look.colour),
                    Mark::Tick { at: lengths.mean(), dash: None, name: "mean" },
                ];
                let cells = vec![text::figure(lengths.mean()), text::count(lengths.total())];
                Some(Row { label: name.into(), colour: look.colour, cells, marks })
            })
            .collect(),
    });
    let page = job.page(
        format!("How far {} search, before and after", job.subject()),
        "Nodes that the kernel's search visits, over the calls of all runs together; 0: the last-used slot answered. \
         Each row is scaled to its own tallest bar.",
    );
    let rows = Rows {
        sections: sections.collect(),
        axis: axis.clone(),
        axis_name: "nodes visited (logarithmic, from 0)".into(),
        columns: ["mean", "searches"].map(str::to_owned).into(),
        row_height: (50.0, 110.0),
    };
    Some(rows.draw(&page, job.size.width, job.size.height))
}

/// Bars whose area is the share of the searches.
fn bars(lengths: &Lengths, axis: &Axis) -> Vec<(f64, f64, f64)> {
    let bars = bins::of_lengths(lengths).into_iter().map(|bin| {
        let (from, to) = (bin.from as f64 - 0.5, bin.to as f64 - 0.5);
        (from, to, bin.count as f64 / (axis.at(to) - axis.at(from)).max(1e-9))
    });
    let bars: Vec<(f64, f64, f64)> = bars.collect();
    let tallest = bars.iter().map(|bar| bar.2).fold(f64::MIN_POSITIVE, f64::max);
    bars.into_iter().map(|(from, to, height)| (from, to, height / tallest)).collect()
}
