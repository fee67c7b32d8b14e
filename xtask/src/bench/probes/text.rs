//! The figures as tables.

use super::{
    Reader,
    figures::{Costs, Kernel},
    targets::Target,
};
use std::{collections::BTreeMap, fmt::Write as _};

/// All figures.
pub(super) fn text(kernels: &BTreeMap<String, Kernel>, readers: &[Reader], targets: &[Target]) -> String {
    let mut text = String::new();
    for (release, kernel) in kernels {
        let _ = writeln!(text, "Kernel {release}, exact mode, instructions a call\n");
        costs(&mut text, "translate_desc, 53 regions", &kernel.translate);
        for (regions, figures) in &kernel.by_regions {
            costs(&mut text, &format!("translate_desc, {regions} regions"), figures);
        }
        costs(&mut text, "kvm_mmu_page_fault, 53 slots", &kernel.page_fault);
        text.push_str(
            "  Few and long calls: differences of some hundreds are no finding (docs/cost.md).\n\n",
        );
        let _ = writeln!(text, "{:<28} {:>10} {:>14}", "walk of translate_desc", "a node", "without it");
        for (key, walk) in &kernel.walk {
            let _ = writeln!(text, "  {key:<26} {:>10.1} {:>14.1}", walk.per_node, walk.without);
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "{:<28} {:>10} {:>28} {:>14}",
        "user side", "events", "events/s of one core", "bytes/event"
    );
    for reader in readers {
        let rate = reader.events_per_s;
        let rate = format!("{:.2} M [{:.2}, {:.2}]", rate.value / 1e6, rate.low / 1e6, rate.high / 1e6);
        let bytes = reader.bytes_per_event;
        let _ = writeln!(text, "  {:<26} {:>10} {rate:>28} {bytes:>14.2}", reader.records, reader.events);
    }
    text.push('\n');
    for target in targets {
        let limit = round(target.limit);
        let _ = match (target.measured, target.met) {
            (Some(measured), Some(met)) => {
                let met = if met { "met   " } else { "missed" };
                writeln!(text, "{met} {}: {} (limit {limit})", target.target, round(measured))
            }
            _ => {
                let note = target.note.unwrap_or_default();
                writeln!(text, "none   {}: {note} (limit {limit})", target.target)
            }
        };
    }
    text
}

fn round(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn costs(text: &mut String, title: &str, costs: &Costs) {
    let _ = writeln!(
        text,
        "{title:<28} {:>10} {:>10} {:>10} {:>7}  said of it  shows",
        "added", "counted", "lost", ""
    );
    for (key, added) in &costs.added {
        let _ = write!(text, "  {key:<26} {added:>10.1}");
        if let Some(counted) = costs.counted.get(key) {
            let share = 100.0 * counted.lost as f64 / counted.calls as f64;
            let shows = counted.shows.as_deref().unwrap_or("");
            let _ = write!(
                text,
                " {:>10} {:>10} {share:>5.1} %  {:>10}  {shows}",
                counted.counted, counted.lost, counted.lost_reported
            );
        }
        let kept = text.trim_end_matches(' ').len();
        text.truncate(kept);
        text.push('\n');
    }
    let again = costs.baseline_again.map(|again| format!("; at the end {again:.1}")).unwrap_or_default();
    let nodes = costs.nodes.map(|nodes| format!("; {nodes:.2} nodes a search")).unwrap_or_default();
    let _ = writeln!(text, "  nothing attached: {:.1}{again}{nodes}\n", costs.baseline);
}

#[cfg(test)]
mod tests {
    use super::super::figures::Counted;
    use super::*;

    #[test]
    fn a_loss_stands_beside_the_cost() {
        let counted =
            Counted { calls: 200, counted: 92, lost: 108, lost_reported: 0, shows: Some("0 - 1 us".into()) };
        let figures = Costs {
            baseline: 593.04,
            baseline_again: Some(593.06),
            nodes: None,
            added: [("perf_ftrace".to_owned(), 3255.4)].into(),
            counted: [("perf_ftrace".to_owned(), counted)].into(),
        };
        let mut text = String::new();
        costs(&mut text, "translate_desc", &figures);
        assert_eq!(
            text,
            "translate_desc                    added    counted       lost          said of it  shows\n  \
             perf_ftrace                    3255.4         92        108  54.0 %           0  0 - 1 us\n  \
             nothing attached: 593.0; at the end 593.1\n\n"
        );
    }

    #[test]
    fn a_target_that_could_not_be_measured_is_not_called_missed() {
        let target = |measured, met, note| Target { target: "x".into(), measured, limit: 1000.0, met, note };
        let targets = [
            target(Some(1246.0), Some(false), None),
            target(Some(99.5), Some(true), None),
            target(None, None, Some("no such mode")),
        ];
        let text = text(&BTreeMap::new(), &[], &targets);
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        assert_eq!(
            lines,
            [
                "none   x: no such mode (limit 1000)",
                "met    x: 99.5 (limit 1000)",
                "missed x: 1246 (limit 1000)"
            ]
        );
    }
}
