//! The experiment as a table.

use super::outcome::{Experiment, Outcome, Pair};
use super::predict::Kind;
use std::fmt::Write as _;

/// A table for each layout, and whether each prediction holds.
#[must_use]
pub fn text(experiment: &Experiment) -> String {
    let mut text = String::new();
    let mut rest = &experiment.results[..];
    while let Some(first) = rest.first() {
        let (of_boot, others) =
            rest.split_at(rest.iter().take_while(|outcome| outcome.setup == first.setup).count());
        rest = others;
        boot(&mut text, of_boot);
        for again in experiment.stock.iter().filter(|again| again.setup == first.setup) {
            let figures = |values: &[f64]| {
                values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(", ")
            };
            let _ = writeln!(
                text,
                "Without the patch, before and after it, {}: median {}; mean {}",
                again.kind.name(),
                figures(&again.medians),
                figures(&again.means)
            );
        }
        text.push('\n');
    }
    let wrong: Vec<String> = experiment
        .results
        .iter()
        .filter(|outcome| outcome.holds() == Some(false))
        .map(|outcome| format!("{} at {}", outcome.engine, outcome.setup.slots))
        .collect();
    let limit = experiment.tolerance * 100.0;
    let _ = match wrong[..] {
        [] => writeln!(text, "Every search was predicted within {limit:.0} %."),
        _ => writeln!(text, "Searches predicted worse than {limit:.0} %: {}.", wrong.join(", ")),
    };
    let differ: u64 = experiment.results.iter().map(|outcome| outcome.verify_mismatches).sum();
    let verified: u64 = experiment.results.iter().map(|outcome| outcome.verified).sum();
    let _ = writeln!(text, "{verified} answers were compared with the stock search's; {differ} differ.");
    text
}

fn boot(text: &mut String, outcomes: &[Outcome]) {
    let Some(first) = outcomes.first() else { return };
    let setup = &first.setup;
    let (things, function) = match setup.experiment {
        super::Module::Kvm => ("slots", "kvm_mmu_page_fault"),
        super::Module::Vhost => ("regions", "translate_desc"),
    };
    let _ = writeln!(
        text,
        "{} {things}, {} registered, {} addresses, Linux {}, {}, {}\n",
        setup.slots,
        setup.order,
        setup.pattern,
        setup.kernel,
        if setup.cached { "cached" } else { "not cached" },
        if setup.exact { "in instructions" } else { "whole function in ns, search in ticks" },
    );
    let mut rows = vec![
        [
            "engine",
            "kind",
            "look-ups",
            "nodes: predicted",
            "observed",
            "search: predicted",
            "observed",
            "error",
            &format!("{function}, median: predicted"),
            "observed",
            "error",
        ]
        .map(str::to_owned),
    ];
    for outcome in outcomes {
        for kind in &outcome.kinds {
            let count = if matches!(kind.kind, Kind::LastUsed) { kind.calls } else { kind.lookups };
            let [nodes, nodes_seen, _] = pair(&kind.nodes, 2);
            let [search, search_seen, search_error] = pair(&kind.search, 1);
            let [whole, whole_seen, whole_error] = pair(&kind.whole_median, 0);
            rows.push([
                outcome.engine.clone(),
                kind.kind.name().to_owned(),
                count.to_string(),
                nodes,
                nodes_seen,
                search,
                search_seen,
                search_error,
                whole,
                whole_seen,
                whole_error,
            ]);
        }
    }
    table(text, &rows);
    text.push('\n');
    let mut rows = vec![
        [
            "engine",
            "way to the search",
            "more a call, by the probes",
            "by the workload's clock",
            "first call, more",
            "share of time",
        ]
        .map(str::to_owned),
    ];
    let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:+.1}"));
    for outcome in outcomes {
        rows.push([
            outcome.engine.clone(),
            format!("{:+.0}", outcome.way),
            figure(outcome.more_by_probes),
            figure(outcome.more_by_workload),
            figure(outcome.build),
            outcome.search_share.map_or_else(|| "–".to_owned(), |share| format!("{:.2} %", share * 100.0)),
        ]);
    }
    table(text, &rows);
    text.push('\n');
}

/// Predicted and observed with half of their intervals, where these have a width, and the error.
fn pair(pair: &Pair, digits: usize) -> [String; 3] {
    let figure = |interval: Option<crate::replay::Interval>| {
        let Some(interval) = interval else { return "–".to_owned() };
        let half = (interval.high - interval.low) / 2.0;
        if half < 0.05 {
            format!("{:.digits$}", interval.value)
        } else {
            format!("{:.digits$} ± {half:.digits$}", interval.value)
        }
    };
    let error = pair.error.map_or_else(|| "–".to_owned(), |error| format!("{:+.1} %", error * 100.0));
    [figure(pair.predicted), figure(pair.observed), error]
}

/// Markdown, with the columns aligned.
fn table<const N: usize>(text: &mut String, rows: &[[String; N]]) {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.chars().count())))
            .collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if number == 0 {
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            let _ = writeln!(text, "|-{}-|", rule.join("-|-"));
        }
    }
}
