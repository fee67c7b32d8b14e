//! The engines on the recording's clock, as text.

use super::SameClock;
use crate::model::Probe;
use crate::replay::ProbeReplay;
use crate::replay::text::{interval, whole};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// The engine that is the probe's kernel's own structure.
pub(crate) fn kernels_own(probe: Probe) -> &'static str {
    if probe == Probe::Translate { "interval_tree" } else { "rbtree" }
}

/// What a prediction of the kernel's own structure says of the method: predicted less observed median, ns.
pub(crate) fn own_error(replay: &ProbeReplay) -> Option<f64> {
    let own = replay.check.same_clock.as_ref()?.engine(kernels_own(replay.probe))?;
    Some(own.predicted?.latency_ns.p50 - replay.latency_ns.p50)
}

/// A table, and what it rests on.
pub(in crate::replay) fn text(replay: &ProbeReplay, same_clock: &SameClock) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["engine", "ns a look-up, recording's clock", "predicted p50, same clock, ns"]);
    for engine in &same_clock.engines {
        let predicted = engine.predicted.map_or("-".to_owned(), |predicted| {
            format!("{}{}", whole(predicted.median_ns), if predicted.extrapolates { " *" } else { "" })
        });
        table.add_row([engine.engine.clone(), interval(engine.ns_per_lookup), predicted]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let clock = if same_clock.exact {
        "which counts instructions"
    } else {
        "which tells real time: warm caches, so the times are the least possible"
    };
    let mut out = format!(
        "  The engines by the recording's clock, {clock} (timed by memslot {}):\n{table}\n  Above, a prediction gives \
         the engine's nodes the cost of the kernel's; here it gives the engine's search its own time:\n  observed, less \
         the kernel's nodes at their cost, plus the engine's search.\n",
        same_clock.tool
    );
    if let Some(error) = own_error(replay) {
        out += &format!(
            "  The kernel's own structure, {}, comes out {error:+.0} ns from what was observed: so far off is the \
             method; compare the others with it.\n",
            kernels_own(replay.probe)
        );
    }
    out
}
