//! What the recordings before foretell of another search, held against what the kernel after did.

use super::rows::sized;
use super::{Interval, Run, Unit};
use crate::engine::EngineId;
use crate::model::Probe;
use crate::recording::Recording;
use crate::replay::{self, LastUsed, Options, Prediction, ProbeReplay, Progress, Quantiles, clock};
use crate::report::tables::table;
use clap::ValueEnum;
use serde::Serialize;
use std::str::FromStr;

/// The search that the kernel after is said to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Its data structure.
    pub engine: EngineId,
    /// Whose last-used slot it asks first.
    pub last_used: LastUsed,
}

impl FromStr for Search {
    type Err = String;

    /// `ENGINE` or `ENGINE:WHOSE`, e.g. `linear`, `rbtree:off`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (engine, whose) = text.split_once(':').unwrap_or((text, "on"));
        let last_used = LastUsed::from_str(whose, false).map_err(|_| {
            format!("there is no last-used slot {whose:?}; choose from on, vcpu, vm, queue, off")
        })?;
        Ok(Self { engine: engine.parse()?, last_used })
    }
}

/// Why nothing is foretold.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// A recording cannot be replayed.
    #[error(transparent)]
    Replay(#[from] replay::Error),
    /// The times beside a recording are of no use.
    #[error(transparent)]
    Times(#[from] clock::Error),
    /// Nothing of the kind was recorded on both sides.
    #[error(
        "no layout of as many slots or regions was recorded before and after, so there is nothing to predict"
    )]
    NothingInCommon,
}

/// One quantile of the latency with another search: foretold and observed.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Foretold {
    /// The probe.
    pub probe: Probe,
    /// Slots or regions.
    pub size: u64,
    /// The engine.
    pub engine: &'static str,
    /// `p50`, `p90` or `p99`.
    pub figure: &'static str,
    /// Of all latencies: instructions where both sides counted them, else ns.
    pub unit: Unit,
    /// Observed in the first run before, of the calls that searched or were answered by a last-used slot.
    pub before: f64,
    /// Foretold by the slope of latency over nodes visited; null where the recording gives none. The interval is
    /// known for the median.
    pub by_slope: Option<Interval>,
    /// Foretold by the engine's own time on the recording's clock; null where it was not timed.
    pub by_clock: Option<Interval>,
    /// Observed in the first run after.
    pub after: f64,
}

impl Foretold {
    /// Error of the whole latency, relative to the observed one.
    #[must_use]
    pub fn error(&self, foretold: Option<Interval>) -> Option<f64> {
        Some((foretold?.value - self.after) / self.after).filter(|error| error.is_finite())
    }

    /// Error of the change alone, relative to the observed change.
    #[must_use]
    pub fn error_of_change(&self, foretold: Option<Interval>) -> Option<f64> {
        Some((foretold?.value - self.after) / (self.after - self.before)).filter(|error| error.is_finite())
    }
}

/// Foretells, from the first run before of every probe and size, what that of the first run after is.
///
/// # Errors
/// A recording cannot be replayed, or nothing was recorded on both sides.
pub fn predict(
    sides: [&[(&Run, Recording)]; 2],
    search: Search,
    exact: bool,
    report: &dyn Fn(Progress),
) -> Result<Vec<Foretold>, PredictError> {
    let unit = if exact { Unit::Instructions } else { Unit::Ns };
    let mut rows = Vec::new();
    for probe in [Probe::PageFault, Probe::Translate] {
        let mut sizes: Vec<u64> = sides[0].iter().filter_map(|run| size(run.0, probe)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let first = |side: &'static str, runs: &[(&Run, Recording)]| {
                let of_size = |run: &&(&Run, Recording)| self::size(run.0, probe) == Some(size);
                runs.iter().find(of_size).map(|run| replayed(&run.1, probe, search, side, report)).transpose()
            };
            let (before, after) = (first("before", sides[0])?, first("after", sides[1])?);
            if let (Some(Some(before)), Some(Some(after))) = (before, after) {
                rows.extend(of_probe(size, search, unit, &before, &after));
            }
        }
    }
    if rows.is_empty() { Err(PredictError::NothingInCommon) } else { Ok(rows) }
}

fn size(run: &Run, probe: Probe) -> Option<u64> {
    run.probes.get(&probe).map(|run| run.size)
}

fn replayed(
    recording: &Recording,
    probe: Probe,
    search: Search,
    side: &'static str,
    report: &dyn Fn(Progress),
) -> Result<Option<ProbeReplay>, PredictError> {
    let stage = if side == "before" { "replaying the run before" } else { "replaying the run after" };
    let report = |progress: Progress| report(Progress { stage, ..progress });
    let options = Options {
        probes: vec![probe],
        engines: Some(vec![search.engine]),
        rounds: 1,
        last_used: search.last_used,
        ..Options::default()
    };
    let mut replays = replay::run(recording, &options, &report)?;
    if side == "before" {
        clock::predict_by_own(recording, &options, &mut replays, &report)?;
    }
    Ok(replays.pop())
}

fn of_probe(
    size: u64,
    search: Search,
    unit: Unit,
    before: &ProbeReplay,
    after: &ProbeReplay,
) -> impl Iterator<Item = Foretold> {
    let engine = search.engine.name();
    let named = before.engines.iter().find(|one| one.engine == engine);
    let by_slope = named.and_then(|one| one.predicted);
    let by_clock = before.check.same_clock.as_ref().and_then(|clock| clock.engine(engine)?.predicted);
    let (probe, latency, observed) = (before.probe, before.latency_ns, after.latency_ns);
    QUANTILES.into_iter().map(move |(figure, of)| Foretold {
        probe,
        size,
        engine,
        figure,
        unit,
        before: of(&latency),
        by_slope: by_slope.as_ref().map(|one| interval(one, figure, of)),
        by_clock: by_clock.as_ref().map(|one| interval(one, figure, of)),
        after: of(&observed),
    })
}

/// A quantile's name, and where it is found.
type Quantile = (&'static str, fn(&Quantiles) -> f64);

const QUANTILES: [Quantile; 3] = [("p50", |all| all.p50), ("p90", |all| all.p90), ("p99", |all| all.p99)];

fn interval(prediction: &Prediction, figure: &str, of: fn(&Quantiles) -> f64) -> Interval {
    let value = of(&prediction.latency_ns);
    match figure {
        "p50" => Interval { value, low: prediction.median_ns.low, high: prediction.median_ns.high },
        _ => Interval { value, low: value, high: value },
    }
}

/// Headings of the table of what was foretold; the first two are names.
pub(super) const HEADINGS: [&str; 10] = [
    "layout",
    "figure",
    "before",
    "by slope",
    "by clock",
    "after",
    "error by slope",
    "by clock",
    "of the change by slope",
    "by clock",
];

/// The cells of a row.
pub(super) fn cells(row: &Foretold) -> [String; 10] {
    let foretold = |one: Option<Interval>| one.map_or_else(none, |one| format!("{:.0}", one.value));
    let errors = [
        row.error(row.by_slope),
        row.error(row.by_clock),
        row.error_of_change(row.by_slope),
        row.error_of_change(row.by_clock),
    ];
    let [by_slope, by_clock, slope_change, clock_change] =
        errors.map(|error| error.map_or_else(none, |error| format!("{} %", super::signed(error))));
    [
        sized(row.probe, row.size),
        row.figure.to_owned(),
        format!("{:.0}", row.before),
        foretold(row.by_slope),
        foretold(row.by_clock),
        format!("{:.0}", row.after),
        by_slope,
        by_clock,
        slope_change,
        clock_change,
    ]
}

/// What the table shows.
pub(super) fn heading(rows: &[Foretold]) -> Option<String> {
    let first = rows.first()?;
    let unit = if first.unit == Unit::Instructions { "instructions" } else { "ns" };
    Some(format!("Latency with {}, foretold from the runs before alone, {unit}", first.engine))
}

/// Heading and table; nothing where nothing was foretold.
pub(super) fn text(rows: &[Foretold]) -> Option<String> {
    let mut table = table(&HEADINGS[..2], &HEADINGS[2..]);
    for row in rows {
        table.add_row(cells(row));
    }
    Some(format!("{}\n{}\n", heading(rows)?, table.trim_fmt()))
}

fn none() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::clock::{SameClock, SameClockEngine};
    use crate::replay::{Check, EngineOutcome, Lengths};
    use std::collections::BTreeMap;

    #[test]
    fn a_search_is_an_engine_and_whose_slot_it_asks() {
        let found: Search = "rbtree:off".parse().unwrap();
        assert_eq!(found, Search { engine: EngineId::Rbtree, last_used: LastUsed::Off });
        assert_eq!("linear".parse::<Search>().unwrap().last_used, LastUsed::On);
        assert!("".parse::<Search>().is_err() && ":off".parse::<Search>().is_err());
        let said = "linear:nobody".parse::<Search>().unwrap_err();
        assert!(said.contains("vcpu"), "{said}");
    }

    fn replay(p50: f64) -> ProbeReplay {
        ProbeReplay {
            probe: Probe::Translate,
            lookups: 100,
            left_out: BTreeMap::new(),
            observed: Lengths::default(),
            latency_ns: Quantiles { p50, p90: p50 + 10.0, p99: p50 + 20.0 },
            fit: None,
            no_fit: None,
            engines: Vec::new(),
            check: Check::default(),
        }
    }

    fn prediction(p50: f64) -> Option<Prediction> {
        Some(Prediction {
            latency_ns: Quantiles { p50, p90: p50 + 10.0, p99: p50 + 20.0 },
            median_ns: Interval { value: p50, low: p50 - 5.0, high: p50 + 5.0 },
            extrapolates: false,
        })
    }

    #[test]
    fn errors_are_of_the_whole_and_of_the_change() {
        let search = "linear".parse().unwrap();
        let mut before = replay(100.0);
        before.engines = vec![EngineOutcome {
            engine: "linear".into(),
            probe: Probe::Translate,
            lookups: 100,
            mismatches: 0,
            visited_mean: 27.0,
            visited: Lengths::default(),
            ns_per_lookup: Interval::default(),
            classes: Vec::new(),
            predicted: prediction(190.0),
        }];
        before.check.same_clock = Some(SameClock {
            exact: true,
            tool: String::new(),
            engines: vec![SameClockEngine {
                engine: "linear".into(),
                predicted: prediction(210.0),
                ..SameClockEngine::default()
            }],
        });
        let rows: Vec<Foretold> = of_probe(53, search, Unit::Instructions, &before, &replay(200.0)).collect();
        assert_eq!(rows.len(), 3);
        let shown = text(&rows[..1]).unwrap();
        assert!(shown.contains("53 regions") && shown.contains("instructions"), "{shown}");
        for figure in ["-5.0 %", "+5.0 %", "-10.0 %", "+10.0 %"] {
            assert!(shown.contains(figure), "{figure} in {shown}");
        }
        assert_eq!(rows[0].by_slope.map(|one| (one.low, one.high)), Some((185.0, 195.0)));
    }

    #[test]
    fn what_was_not_foretold_is_not_claimed_and_no_change_has_no_error_of_its_own() {
        let search = "linear".parse().unwrap();
        let rows: Vec<Foretold> = of_probe(3, search, Unit::Ns, &replay(5.0), &replay(5.0)).collect();
        assert_eq!((rows[0].by_slope, rows[0].by_clock), (None, None));
        assert!(text(&rows).unwrap().contains('–'));
        assert_eq!(text(&[]), None);
        let same = Some(Interval { value: 5.0, low: 5.0, high: 5.0 });
        assert_eq!((rows[0].error(same), rows[0].error_of_change(same)), (Some(0.0), None));
    }
}
