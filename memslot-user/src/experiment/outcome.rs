//! `experiment.json`: predicted and observed side by side.

use super::calibration::Calibration;
use super::costs::{Costs, costs};
use super::observed::{Observed, Recorded, observed};
use super::predict::{ByKind, Figures, Kind, predict};
use super::setup::{Error, Setup, read_json};
use crate::recording::Recording;
use crate::replay::Interval;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Version of the document's layout.
pub const SCHEMA: u32 = 1;
/// The search's prediction may be off by so much, relative to what was observed.
pub const TOLERANCE: f64 = 0.1;

/// The document.
#[derive(Clone, Debug, Serialize)]
pub struct Experiment {
    /// 1.
    pub schema: u32,
    /// Version of memslot that evaluated.
    pub tool: String,
    /// Largest error of a predicted search that is accepted.
    pub tolerance: f64,
    /// One for each engine and layout.
    pub results: Vec<Outcome>,
    /// What the searches take on known inputs, by boot.
    pub costs: Vec<Costs>,
    /// The kernel without the patch, before and after it was patched, by boot.
    pub stock: Vec<StockAgain>,
}

/// The stock kernel before the patch and after it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StockAgain {
    /// The boot.
    #[serde(flatten)]
    pub setup: SetupRow,
    /// Kind of call.
    pub kind: Kind,
    /// Medians of the whole function.
    pub medians: Vec<f64>,
    /// Means.
    pub means: Vec<f64>,
}

/// Predicted, observed, and how far they are apart; all means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Pair {
    /// From the stock recording and the costs.
    pub predicted: Option<Interval>,
    /// What it was.
    pub observed: Option<Interval>,
    /// Predicted less observed, relative to observed.
    pub error: Option<f64>,
}

impl Pair {
    fn new(predicted: Option<Interval>, observed: Option<Interval>) -> Self {
        let error = predicted.zip(observed).map(|(one, other)| (one.value - other.value) / other.value);
        Self { predicted, observed, error: error.filter(|error| error.is_finite()) }
    }
}

/// The figures of a kind of look-ups or calls.
#[derive(Clone, Debug, Serialize)]
pub struct KindOutcome {
    /// Which.
    pub kind: Kind,
    /// Look-ups that searched, of a run.
    pub lookups: u64,
    /// Calls of the whole function, of all recordings of the engine.
    pub calls: u64,
    /// Nodes visited by a search.
    pub nodes: Pair,
    /// The search itself.
    pub search: Pair,
    /// The whole function, mean.
    pub whole: Pair,
    /// The whole function, median.
    pub whole_median: Pair,
    /// The means of the recordings, run by run.
    pub whole_runs: Vec<f64>,
}

/// An engine over a layout. In the exact mode times are instructions, else ns, and those of the search ticks.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The boot.
    #[serde(flatten)]
    pub setup: SetupRow,
    /// The engine, or `stock`.
    pub engine: String,
    /// The search itself, mean over hits and misses.
    pub predicted_search: Option<f64>,
    /// What it was.
    pub observed_search: Option<f64>,
    /// Relative error.
    pub search_error: Option<f64>,
    /// Look-ups that the stock search was asked for, too.
    pub verified: u64,
    /// Of them, those where it answered differently.
    pub verify_mismatches: u64,
    /// Look-ups that were left to the stock search.
    pub unsure: u64,
    /// Calls that the recordings of the boot lost.
    pub lost: u64,
    /// What a call of the function takes more than on the kernel without the patch, by the probes: for vhost the
    /// difference of the means, for KVM, where a few faults wait long, that of the medians of hits.
    pub more_by_probes: Option<f64>,
    /// The same by the workload's own clock, without probes and less `build`; where each call is one look-up.
    pub more_by_workload: Option<f64>,
    /// What the first call of a run takes more than the others: it builds the index. In no other figure.
    pub build: Option<f64>,
    /// The way to the search, beyond that of the kernel without the patch: ftrace, and finding the index.
    pub way: f64,
    /// The searches, as a share of the time that the workload takes without probes; where each call is one look-up.
    pub search_share: Option<f64>,
    /// Hits, misses and the rest apart.
    pub kinds: Vec<KindOutcome>,
}

/// What identifies a boot in a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetupRow {
    /// `kvm` or `vhost`.
    pub experiment: super::Module,
    /// Series.
    pub kernel: String,
    /// Slots or regions.
    pub slots: u64,
    /// How addresses were chosen.
    pub pattern: String,
    /// Order of registration.
    pub order: String,
    /// Was what was found last asked first?
    pub cached: bool,
    /// Times are instructions.
    pub exact: bool,
}

impl SetupRow {
    fn new(setup: &Setup) -> Self {
        Self {
            experiment: setup.module,
            kernel: setup.kernel.clone(),
            slots: setup.slots,
            pattern: setup.pattern.clone(),
            order: setup.order.clone(),
            cached: setup.cached,
            exact: setup.exact,
        }
    }
}

impl Outcome {
    /// Is the search's prediction within the tolerance? `None` where nothing was searched.
    #[must_use]
    pub fn holds(&self) -> Option<bool> {
        self.search_error.map(|error| error.abs() <= TOLERANCE)
    }
}

/// Evaluates the boots of an experiment.
///
/// # Errors
/// Something of a boot is missing or damaged.
pub fn evaluate(boots: &[PathBuf], tool: &str, progress: &dyn Fn(&str)) -> Result<Experiment, Error> {
    let mut experiment = Experiment {
        schema: SCHEMA,
        tool: tool.to_owned(),
        tolerance: TOLERANCE,
        results: Vec::new(),
        costs: Vec::new(),
        stock: Vec::new(),
    };
    for boot in boots {
        progress(&boot.display().to_string());
        boot_outcome(boot, &mut experiment)?;
    }
    Ok(experiment)
}

fn boot_outcome(boot: &Path, experiment: &mut Experiment) -> Result<(), Error> {
    let setup = Setup::read(boot)?;
    let path = boot.join("calibration.json");
    let (engines, off): (Calibration, Calibration) =
        (read_json(&path)?, read_json(&boot.join("calibration-off.json"))?);
    let costs = costs(setup.module, &engines, &off).map_err(|reason| Error::bad(&path, reason))?;
    // All that a prediction is made from: the stock kernel's first recording, and the costs.
    let stock = Recording::open(&boot.join("off-1"))?;
    let recorded = Recorded::read(boot, &setup)?;
    let base = observed(boot, &recorded, "off")?;
    experiment.stock.extend(base.kinds.iter().map(|(kind, figures)| StockAgain {
        setup: SetupRow::new(&setup),
        kind: *kind,
        medians: figures.median_runs.clone(),
        means: figures.whole_runs.clone(),
    }));
    for engine in std::iter::once("stock").chain(setup.engines.iter().map(String::as_str)) {
        let predicted = predict(&stock, setup.module, setup.asks_last(engine), engine, &costs)?;
        let observed = observed(boot, &recorded, engine)?;
        let mut row = outcome(&setup, engine, &predicted, &observed, &base, &costs);
        row.lost = recorded.lost();
        experiment.results.push(row);
    }
    experiment.costs.push(costs);
    Ok(())
}

fn outcome(
    setup: &Setup,
    engine: &str,
    predicted: &ByKind,
    observed: &Observed,
    base: &Observed,
    costs: &Costs,
) -> Outcome {
    let of = |kinds: &ByKind, kind: Kind| kinds.get(&kind).cloned().unwrap_or_default();
    let kinds: Vec<KindOutcome> = Kind::ALL
        .into_iter()
        .filter(|kind| predicted.contains_key(kind) || observed.kinds.contains_key(kind))
        .map(|kind| kind_outcome(kind, &of(predicted, kind), &of(&observed.kinds, kind)))
        .collect();
    let (predicted_search, observed_search) = (mean_search(predicted), mean_search(&observed.kinds));
    let search = Pair::new(predicted_search.map(exactly), observed_search.map(exactly));
    Outcome {
        setup: SetupRow::new(setup),
        engine: engine.to_owned(),
        predicted_search,
        observed_search,
        search_error: search.error,
        verified: observed.verified.verified,
        verify_mismatches: observed.verified.mismatches,
        unsure: observed.verified.unsure,
        lost: 0,
        more_by_probes: by_probes(setup.module, observed, base),
        more_by_workload: by_workload(observed, base),
        build: observed
            .kinds
            .get(&Kind::Hit)
            .and_then(|hits| Some(observed.first - hits.whole_median?.value)),
        way: costs.engines.get(engine).map_or(0.0, |cost| cost.around - costs.off.around),
        search_share: search_share(observed, observed_search, setup.asks_last(engine)),
        kinds,
    }
}

fn exactly(value: f64) -> Interval {
    Interval { value, low: value, high: value }
}

fn kind_outcome(kind: Kind, predicted: &Figures, observed: &Figures) -> KindOutcome {
    KindOutcome {
        kind,
        lookups: observed.lookups,
        calls: observed.calls,
        nodes: Pair::new(predicted.nodes, observed.nodes),
        search: Pair::new(predicted.search, observed.search),
        whole: Pair::new(predicted.whole, observed.whole),
        whole_median: Pair::new(predicted.whole_median, observed.whole_median),
        whole_runs: observed.whole_runs.clone(),
    }
}

/// Over hits and misses.
#[expect(clippy::cast_precision_loss, reason = "a number of look-ups")]
fn mean_search(kinds: &ByKind) -> Option<f64> {
    let searching = [Kind::Hit, Kind::Miss].into_iter().filter_map(|kind| kinds.get(&kind));
    let (sum, count) = searching
        .filter_map(|of| Some((of.search?, of.lookups)))
        .fold((0.0, 0), |(sum, count), (search, lookups)| {
            (sum + search.value * lookups as f64, count + lookups)
        });
    (count > 0).then(|| sum / count as f64)
}

#[expect(clippy::cast_precision_loss, reason = "a number of calls")]
fn mean_call(observed: &Observed) -> Option<f64> {
    (observed.calls > 0).then(|| observed.sum / observed.calls as f64)
}

fn by_probes(module: super::Module, observed: &Observed, base: &Observed) -> Option<f64> {
    let of = |of: &Observed| match module {
        super::Module::Vhost => mean_call(of),
        super::Module::Kvm => Some(of.kinds.get(&Kind::Hit)?.whole_median?.value),
    };
    Some(of(observed)? - of(base)?)
}

#[expect(clippy::cast_precision_loss, reason = "a number of descriptors")]
fn by_workload(observed: &Observed, base: &Observed) -> Option<f64> {
    let without_build = |of: &Observed| Some(of.duration? - (of.first - mean_call(of)?));
    let descriptors = observed.descriptors as f64;
    (observed.descriptors > 0).then_some((without_build(observed)? - without_build(base)?) / descriptors)
}

#[expect(clippy::cast_precision_loss, reason = "a number of descriptors")]
fn search_share(observed: &Observed, search: Option<f64>, asks_last: bool) -> Option<f64> {
    let searching = observed.kinds.get(&Kind::Hit).map_or(0, |hits| hits.lookups);
    let lookups = if asks_last { searching } else { observed.descriptors };
    (observed.descriptors > 0).then_some(search? * lookups as f64 / observed.duration?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_of_hits_and_misses_is_weighed_by_their_number() {
        let of = |lookups, search| Figures { lookups, search: Some(exactly(search)), ..Figures::default() };
        let mut kinds: ByKind = [(Kind::Hit, of(3, 10.0)), (Kind::Miss, of(1, 30.0))].into();
        assert_eq!(mean_search(&kinds), Some(15.0));
        // The emulator's look-ups belong to no fault.
        kinds.insert(Kind::Mmio, of(100, 1.0));
        assert_eq!(mean_search(&kinds), Some(15.0));
        assert_eq!(mean_search(&ByKind::new()), None);
    }

    #[test]
    fn an_error_is_relative_to_what_was_observed() {
        assert_eq!(Pair::new(Some(exactly(90.0)), Some(exactly(100.0))).error, Some(-0.1));
        assert_eq!(Pair::new(Some(exactly(1.0)), Some(exactly(0.0))).error, None);
        assert_eq!(Pair::new(None, Some(exactly(1.0))).error, None);
    }
}
