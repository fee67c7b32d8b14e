//! PLE policies against a base: replayed over recorded exits, and simulated under loads.

use super::super::text;
use crate::digest::Digest;
use crate::ple::{AgainstBase, Table};

/// One policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) policy: String,
    /// What the row shows, %: work done, or exits; `None` where the base has none.
    pub(crate) change: Option<f64>,
    /// Its range over the runs, or what the recording leaves open.
    pub(crate) range: Option<(f64, f64)>,
    pub(crate) against_base: AgainstBase,
}

/// A load, or a recording.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) heading: String,
    pub(crate) rows: Vec<Row>,
    pub(crate) note: Option<String>,
}

/// The simulated tables, each once, a part for each load.
pub(crate) fn simulated(digests: &[&Digest]) -> Vec<Part> {
    let mut tables: Vec<&Table> = Vec::new();
    for table in digests.iter().flat_map(|digest| &digest.ple_simulated) {
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    tables.into_iter().flat_map(loads).collect()
}

fn loads(table: &Table) -> Vec<Part> {
    let by_load = table.rows.chunk_by(|one, other| one.load == other.load);
    by_load
        .filter_map(|rows| {
            let load = rows.first()?.load;
            let vms = if load == 1 { "1 VM".to_owned() } else { format!("{load} VMs") };
            Some(Part {
                heading: format!(
                    "{load}x: {vms} of {} vCPUs on {} CPUs, windows in {}{}",
                    table.config.cpus,
                    table.config.cpus,
                    table.config.unit.name(),
                    rows.iter().find_map(|row| short(&row.policy).1).unwrap_or_default()
                ),
                rows: rows
                    .iter()
                    .map(|row| Row {
                        policy: short(&row.policy).0,
                        change: Some(row.work_percent),
                        range: Some(row.work_range),
                        against_base: row.against_base,
                    })
                    .collect(),
                note: None,
            })
        })
        .collect()
}

/// The name of a policy without its parameters, and these.
fn short(policy: &str) -> (String, Option<String>) {
    match policy.split_once(':') {
        Some((name, parameters)) => {
            let parameters = parameters.replace('=', " ").replace(',', ", ");
            (name.to_owned(), Some(format!("; {name}: {parameters}")))
        }
        None => (policy.to_owned(), None),
    }
}

/// The policies over each recording's own exits.
pub(crate) fn replayed(digests: &[&Digest]) -> Vec<Part> {
    let analysed = digests.iter().filter_map(|digest| Some((digest, digest.ple_analysis.as_ref()?)));
    analysed
        .map(|(digest, analysis)| {
            let base = analysis.policies.first().map_or(0, |base| base.exits);
            let percent = |exits: u64| (base > 0).then(|| 100.0 * (float(exits) / float(base) - 1.0));
            let rows = analysis.policies.iter().map(|policy| Row {
                policy: format!(
                    "{}{}",
                    short(&policy.policy).0,
                    if policy.at_least { " (at least)" } else { "" }
                ),
                change: policy.against_base.exits,
                range: percent(policy.exits).zip(percent(policy.exits_most)),
                against_base: policy.against_base,
            });
            Part {
                heading: format!(
                    "{}: {} exits, load {}x",
                    digest.label,
                    text::count(analysis.trail.exits),
                    text::figure(analysis.load)
                ),
                rows: rows.collect(),
                note: analysis.no_replay.as_ref().map(|reason| format!("No replay of policies: {reason}.")),
            }
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
fn float(count: u64) -> f64 {
    count as f64
}

/// Least and largest change that the rows show, %.
pub(crate) fn range(parts: &[Part]) -> (f64, f64) {
    parts
        .iter()
        .flat_map(|part| &part.rows)
        .flat_map(|row| [row.change, row.range.map(|range| range.0), row.range.map(|range| range.1)])
        .flatten()
        .filter(|value| value.is_finite())
        .fold((0.0, 0.0), |(low, high), value| (low.min(value), high.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::fixture::lifelike;
    use crate::ple::policy::Policy;
    use crate::ple::sim::{Config, MILLISECOND};
    use crate::ple::window::{Parameters, Unit};
    use crate::ple::{Replayed, simulate};

    #[test]
    fn a_simulated_table_has_a_part_a_load_and_is_shown_once() {
        let config = Config { duration: 5 * MILLISECOND, cpus: 2, ..Config::new(1, Unit::Cycles) };
        let policies = Policy::usual(Parameters::defaults(Unit::Cycles));
        let table = simulate(&config, &[1, 2], &policies, 2).unwrap();
        let with = || {
            let mut digest = Digest::default();
            digest.ple_simulated.push(table.clone());
            digest
        };
        let parts = simulated(&[&with(), &with(), &Digest::default()]);
        let headings: Vec<_> = parts.iter().map(|part| part.heading.as_str()).collect();
        assert_eq!(
            headings,
            ["1x: 1 VM", "2x: 2 VMs"].map(|vms| format!(
                "{vms} of 2 vCPUs on 2 CPUs, windows in cycles; dynamic: base 4096, grow 2, shrink 0, max 4294967295"
            ))
        );
        assert_eq!(parts[1].rows.len(), 5);
        assert_eq!(parts[1].rows[4].policy, "dynamic");
        assert_eq!(parts[1].rows[0].change, Some(0.0), "the base");
        assert_eq!(parts[1].rows[3].change, Some(table.rows[8].work_percent));
        assert_eq!(parts[1].rows[3].against_base.exits, Some(-100.0), "off has no exits");
    }

    #[test]
    fn replayed_exits_stand_against_the_base_with_what_is_open() {
        let mut digest = lifelike::ple("a", 2, false, 1);
        let analysis = digest.ple_analysis.as_mut().unwrap();
        let policy = |policy: &str, exits, exits_most, change| Replayed {
            policy: policy.into(),
            exits,
            exits_most,
            handler_ns: 0,
            spun: 0,
            boosted: 0,
            at_least: policy == "1k",
            against_base: AgainstBase { exits: change, ..AgainstBase::default() },
        };
        analysis.no_replay = None;
        analysis.policies = vec![
            policy("4k", 200, 220, Some(0.0)),
            policy("1k", 500, 510, Some(150.0)),
            policy("off", 0, 0, Some(-100.0)),
        ];
        let parts = replayed(&[&digest]);
        assert_eq!(parts[0].heading, "a: 510 exits, load 1x");
        let (low, high) = parts[0].rows[0].range.unwrap();
        assert!(low.abs() < 1e-9 && (high - 10.0).abs() < 1e-9);
        assert_eq!(
            (parts[0].rows[1].policy.as_str(), parts[0].rows[1].change),
            ("1k (at least)", Some(150.0))
        );
        let (low, high) = range(&parts);
        assert!((low + 100.0).abs() < 1e-9 && (high - 155.0).abs() < 1e-9);
    }

    #[test]
    fn what_cannot_be_replayed_gives_the_reason() {
        let digest = lifelike::ple("a", 2, false, 1);
        let parts = replayed(&[&digest]);
        assert!(parts[0].rows.is_empty());
        assert!(parts[0].note.as_ref().unwrap().starts_with("No replay of policies: "), "{parts:?}");
        assert!(replayed(&[&Digest::default()]).is_empty() && simulated(&[&Digest::default()]).is_empty());
        assert_eq!(range(&parts), (0.0, 0.0));
    }
}
