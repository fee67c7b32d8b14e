//! The figures as a table.

use super::{Figure, ReplayFigure, Target};
use comfy_table::{Cell, CellAlignment, Table, presets};
use std::fmt::Write;

/// The figures, the targets, and the replay.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "bytes far below 2^53")]
pub fn text(figures: &[Figure], targets: &[Target], replay: Option<&ReplayFigure>) -> String {
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "slots",
        "addresses",
        "engine",
        "ns",
        "/ partition_point",
        "/ btreemap",
        "/ sorted_array",
    ]);
    for figure in figures {
        let ratio = |interval: super::Interval| {
            number(format!("{:.2} ({:.2}–{:.2})", interval.value, interval.low, interval.high))
        };
        table.add_row([
            number(figure.slots.to_string()),
            Cell::new(figure.pattern.name()),
            Cell::new(figure.engine),
            number(format!("{:.1}", figure.ns_per_lookup)),
            ratio(figure.intervals.ratio_to_partition_point),
            ratio(figure.intervals.ratio_to_btreemap),
            ratio(figure.intervals.ratio_to_sorted_array),
        ]);
    }
    let mut out = format!("{table}\n");
    if let Some(replay) = replay {
        let mb = replay.max_rss_bytes as f64 / 1e6;
        let _ = writeln!(
            out,
            "\nReplay: {} events through all engines in {:.1} s ({:.1} s of CPU in user mode) and {mb:.0} MB",
            replay.events, replay.seconds, replay.user_seconds
        );
    }
    let missed: Vec<&Target> = targets.iter().filter(|target| !target.met).collect();
    let _ = writeln!(out, "\nTargets: {} of {} met", targets.len() - missed.len(), targets.len());
    for target in missed {
        let place = match target.pattern {
            Some(pattern) => format!(" with {} slots, {} addresses", target.slots, pattern.name()),
            None => String::new(),
        };
        let Target { target, measured, limit, .. } = target;
        let _ = writeln!(
            out,
            "MISSED: {target}{place}: {:.2} ({:.2}–{:.2}), limit {limit:.2}",
            measured.value, measured.low, measured.high
        );
    }
    out
}
