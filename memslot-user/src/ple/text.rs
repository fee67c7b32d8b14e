//! PLE results as text for people.

use super::table::Table as Simulated;
use super::{Recorded, UNCONFIRMED};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use std::fmt::Write;

/// A recording's windows.
#[must_use]
pub fn recorded_text(recorded: &Recorded) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_recorded(&mut out, recorded);
    out
}

fn write_recorded(out: &mut String, recorded: &Recorded) -> std::fmt::Result {
    let (trail, parameters) = (&recorded.trail, &recorded.parameters);
    let label = recorded.label.as_deref().map(|label| format!(" of {label}")).unwrap_or_default();
    writeln!(
        out,
        "PLE exits{label}: {} by {} vCPUs on {} CPUs (load {:.1}x)",
        trail.exits, recorded.vcpus, recorded.cpus, recorded.load
    )?;
    writeln!(
        out,
        "  Windows in {}: base {}, grow {}, shrink {}, max {}.",
        recorded.unit.name(),
        parameters.base,
        parameters.grow,
        parameters.shrink,
        parameters.max
    )?;
    if trail.exact() {
        writeln!(out, "  KVM's rules give every recorded window:")?;
    } else {
        writeln!(
            out,
            "  WRONG: KVM's rules do not give the windows of {} exits and {} steps between exits:",
            trail.differ, trail.steps_differ
        )?;
    }
    writeln!(
        out,
        "  {} exits grew it, {} grew it and were scheduled out inside; {} of {} steps between exits shrank it.",
        trail.grown, trail.shrunk_inside, trail.shrunk_between, trail.steps
    )?;
    writeln!(
        out,
        "  Handler: {} ns, time scheduled out included; {} yields, {} boosted, {} refused for undercommit.",
        recorded.handler_ns, recorded.yields, recorded.boosted, recorded.undercommit
    )?;
    for note in &recorded.notes {
        writeln!(out, "  Note: {note}.")?;
    }
    if let Some(reason) = &recorded.no_replay {
        writeln!(out, "  No replay of policies: {reason}. To assume a pace, give --ns-per-unit.")?;
    }
    if let (Some(pace), Some(base)) = (recorded.ns_per_unit, recorded.policies.first()) {
        writeln!(out, "  Policies over the {} spins seen, at {pace:.3} ns a unit:", recorded.spins)?;
        writeln!(out, "  In brackets: against {}.", base.policy)?;
        let mut table =
            new_table(&["policy", "exits", "at most", "handler, ns", "spun before exit, ns", "boosted"]);
        for policy in &recorded.policies {
            let against = &policy.against_base;
            let least = if policy.at_least { " *" } else { "" };
            table.add_row([
                policy.policy.clone(),
                format!("{}{}{least}", policy.exits, percent(against.exits)),
                policy.exits_most.to_string(),
                format!("{}{}", policy.handler_ns, percent(against.handler)),
                format!("{:.0}{}", nanoseconds(policy.spun, pace), percent(against.spun_before_exit)),
                format!("{}{}", policy.boosted, percent(against.boosted)),
            ]);
        }
        writeln!(out, "{}", align(table))?;
        if recorded.policies.iter().any(|policy| policy.at_least) {
            writeln!(
                out,
                "  * a smaller window than was in force: spins too short for an exit are not in the recording."
            )?;
        }
        writeln!(
            out,
            "  The spins are taken as they were; whether a policy shortens them, --simulate shows."
        )?;
    }
    writeln!(out, "  Unconfirmed: {UNCONFIRMED}.")
}

/// The simulator's table.
#[must_use]
pub fn simulated_text(simulated: &Simulated) -> String {
    let mut table = new_table(&[
        "load",
        "policy",
        "work, %",
        "range",
        "exits",
        "in handler, %",
        "spun before exit, %",
        "spun, %",
        "boosted",
    ]);
    for row in &simulated.rows {
        let against = &row.against_base;
        table.add_row([
            format!("{}x", row.load),
            row.policy.clone(),
            format!("{:+.1}", row.work_percent),
            format!("{:+.1} to {:+.1}", row.work_range.0, row.work_range.1),
            format!("{:.0}{}", row.exits, percent(against.exits)),
            format!("{:.2}{}", row.handler_percent, percent(against.handler)),
            format!("{:.2}{}", row.spun_before_exit_percent, percent(against.spun_before_exit)),
            format!("{:.2}", row.spun_percent),
            format!("{:.0}{}", row.boosted, percent(against.boosted)),
        ]);
    }
    format!(
        "Simulated: {} CPUs, VMs of as many vCPUs, windows in {}, means of {} runs\n  Work, and what stands in brackets: \
         against {} at the same load.\n{}\n  \
         Unconfirmed: {UNCONFIRMED}.\n",
        simulated.config.cpus,
        simulated.config.unit.name(),
        simulated.runs,
        simulated.base,
        align(table)
    )
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header);
    table
}

fn align(mut table: Table) -> Table {
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[expect(clippy::cast_precision_loss, reason = "units spun are far below 2^53")]
fn nanoseconds(units: u64, ns_per_unit: f64) -> f64 {
    units as f64 * ns_per_unit
}

/// More than the base's, in brackets.
fn percent(against: Option<f64>) -> String {
    against.map(|percent| format!(" ({percent:+.1} %)")).unwrap_or_default()
}
