//! Charts of experiments: what was predicted against what was observed.

use super::page::{Key, Page, Remark};
use super::palette::{self, GREY, KERNEL, Look, Marker};
use super::panels::{Item, Panel, Panels};
use super::scale::Axis;
use super::{Picture, Size, footer, text};
use crate::experiment::outcome::{Experiment, KindOutcome, Outcome, Pair};
use crate::experiment::predict::Kind;

/// Where predicted and observed are the same.
const SAME: Look = Look { colour: GREY, shape: Marker::Circle, dash: Some((6.0, 4.0)) };

/// A figure that is drawn: its heading, its axis' name, and where it is found.
type Figure = (&'static str, &'static str, fn(&KindOutcome) -> &Pair);

const FIGURES: [Figure; 3] = [
    ("Nodes visited", "nodes", |kind| &kind.nodes),
    ("The search itself", "instructions", |kind| &kind.search),
    ("The whole function, median", "instructions", |kind| &kind.whole_median),
];

/// Draws, for hits, misses and MMIO, predicted against observed and what grows with the number of slots or regions; with
/// the names of their files, which lack the ending.
#[must_use]
pub fn draw_all(experiment: &Experiment) -> Vec<(String, Picture)> {
    let mut images = Vec::new();
    for (kind, name) in [(Kind::Hit, "hits"), (Kind::Miss, "misses"), (Kind::Mmio, "mmio")] {
        let series = series(experiment, kind);
        let Some(first) = experiment.results.first().filter(|_| !series.is_empty()) else { continue };
        let page = |title: &str, subtitle: &str| page(first, experiment, &series, title, subtitle);
        let against = Panels {
            panels: FIGURES.iter().map(|figure| against(&series, figure)).collect(),
            columns: 3,
            least_height: 460.0,
        };
        let calls = if kind == Kind::Mmio { "cached MMIO, which the emulator looks up" } else { name };
        let title = format!("Predicted from the stock kernel, and observed: {calls}");
        let subtitle = "A marker for each engine and layout; bars are 95 % intervals of the prediction.";
        let Size { width, height } = Size::default();
        images.push((
            format!("experiment-{name}-predicted"),
            against.draw(&page(&title, subtitle), width, height),
        ));
        let growth: Vec<Panel> = FIGURES.iter().filter_map(|figure| growth(&series, figure, first)).collect();
        if growth.len() == FIGURES.len() {
            let title = format!("What more {} cost: {calls}", things(first));
            let subtitle = "Lines are what was observed; bars are 95 % intervals of what was predicted.";
            let growth = Panels { panels: growth, columns: 3, least_height: 460.0 };
            images.push((
                format!("experiment-{name}-size"),
                growth.draw(&page(&title, subtitle), width, height),
            ));
        }
    }
    images
}

/// An engine's figures, by number of slots.
struct Series<'a> {
    engine: &'a str,
    look: Look,
    points: Vec<(u64, &'a KindOutcome)>,
}

fn series(experiment: &Experiment, kind: Kind) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for outcome in &experiment.results {
        let Some(of_kind) = outcome.kinds.iter().find(|of| of.kind == kind && of.lookups > 0) else {
            continue;
        };
        let point = (outcome.setup.slots, of_kind);
        match all.iter_mut().find(|series| series.engine == outcome.engine) {
            Some(series) => series.points.push(point),
            None => {
                let look = if outcome.engine == "stock" { KERNEL } else { palette::engine(&outcome.engine) };
                all.push(Series { engine: &outcome.engine, look, points: vec![point] });
            }
        }
    }
    for series in &mut all {
        series.points.sort_by_key(|point| point.0);
    }
    all
}

fn things(outcome: &Outcome) -> &'static str {
    match outcome.setup.experiment {
        crate::experiment::Module::Kvm => "slots",
        crate::experiment::Module::Vhost => "regions",
    }
}

fn page(
    first: &Outcome,
    experiment: &Experiment,
    series: &[Series<'_>],
    title: &str,
    subtitle: &str,
) -> Page {
    let mut legend: Vec<(Key, String)> =
        series.iter().map(|series| (Key::Series(series.look), series.engine.to_owned())).collect();
    if title.starts_with("Predicted") {
        legend.push((Key::Line(SAME), "predicted = observed".to_owned()));
    }
    let setup = &first.setup;
    let verified: u64 = experiment.results.iter().map(|outcome| outcome.verified).sum();
    let differ: u64 = experiment.results.iter().map(|outcome| outcome.verify_mismatches).sum();
    let text = format!(
        "Linux {}, {} registered, {} addresses, {} · {} answers compared with the stock search's, {} differ",
        setup.kernel,
        setup.order,
        setup.pattern,
        if setup.cached { "cached" } else { "not cached" },
        text::count(verified),
        text::count(differ),
    );
    let clock = footer::virtualised(if setup.exact { "icount" } else { "QEMU-TCG" });
    Page {
        title: title.to_owned(),
        subtitle: subtitle.to_owned(),
        legend,
        footer: vec![Remark { text, warning: differ > 0 }, Remark { text: clock, warning: false }],
    }
}

/// The ends of what is drawn.
fn ends(values: impl Iterator<Item = f64>) -> Option<(u64, u64)> {
    let (low, high) =
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast")]
    let whole = |value: f64| value as u64;
    (low <= high).then(|| (whole(low.floor()).max(1), whole(high.ceil()).max(2)))
}

/// By the logarithm, unless the values are so near to each other that it would have no ticks.
fn axis(low: u64, high: u64) -> Axis {
    if high >= 5 * low {
        return Axis::number(low, high);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a tick of an axis of instructions"
    )]
    let label = |value: f64| text::count(value.round() as u64);
    #[expect(clippy::cast_precision_loss, reason = "places on an axis")]
    Axis::between(low as f64, high as f64, label)
}

/// Predicted over observed, both on the same axis.
fn against(series: &[Series<'_>], (heading, unit, of): &Figure) -> Panel {
    let pairs = || series.iter().flat_map(|series| series.points.iter().map(|point| of(point.1)));
    let values = pairs().flat_map(|pair| [pair.predicted, pair.observed]).flatten();
    let Some((low, high)) = ends(values.map(|interval| interval.value)) else {
        return empty(heading);
    };
    #[expect(clippy::cast_precision_loss, reason = "places on an axis")]
    let diagonal = vec![(low as f64, low as f64), (high as f64, high as f64)];
    let mut items = vec![Item::Line { points: diagonal, look: SAME, width: 1.5, marked: false }];
    for series in series {
        let mut points = Vec::new();
        for (_, kind) in &series.points {
            let (Some(predicted), Some(observed)) = (of(kind).predicted, of(kind).observed) else { continue };
            points.push((observed.value, predicted.value));
            let (low, high, colour) = (predicted.low, predicted.high, series.look.colour);
            items.push(Item::Interval { at: observed.value, low, high, colour });
        }
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        items.push(Item::Line { points, look: series.look, width: 1.5, marked: true });
    }
    Panel {
        heading: (*heading).to_owned(),
        note: None,
        x: axis(low, high),
        x_name: format!("observed, {unit}"),
        y: axis(low, high),
        y_name: format!("predicted, {unit}"),
        items,
    }
}

/// Observed over the number of slots, with the prediction's intervals. Nothing where there is one number only.
fn growth(series: &[Series<'_>], (heading, unit, of): &Figure, first: &Outcome) -> Option<Panel> {
    let mut sizes: Vec<u64> =
        series.iter().flat_map(|series| series.points.iter().map(|point| point.0)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < 2 {
        return None;
    }
    let pairs = || series.iter().flat_map(|series| series.points.iter().map(|point| of(point.1)));
    let values = pairs().flat_map(|pair| [pair.predicted, pair.observed]).flatten();
    let (low, high) = ends(values.map(|interval| interval.value))?;
    let mut items = Vec::new();
    for series in series {
        let mut points = Vec::new();
        for (size, kind) in &series.points {
            #[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
            let at = *size as f64;
            if let Some(observed) = of(kind).observed {
                points.push((at, observed.value));
            }
            if let Some(predicted) = of(kind).predicted {
                let (low, high, colour) = (predicted.low, predicted.high, series.look.colour);
                items.push(Item::Interval { at, low, high, colour });
            }
        }
        items.push(Item::Line { points, look: series.look, width: 2.0, marked: true });
    }
    Some(Panel {
        heading: (*heading).to_owned(),
        note: None,
        x: Axis::number(*sizes.first()?, *sizes.last()?).at_values(&sizes),
        x_name: format!("number of {} (logarithmic)", things(first)),
        y: axis(low, high),
        y_name: (*unit).to_owned(),
        items,
    })
}

fn empty(heading: &str) -> Panel {
    Panel {
        heading: heading.to_owned(),
        note: Some("nothing of this kind was observed".to_owned()),
        x: Axis::number(1, 2),
        x_name: String::new(),
        y: Axis::number(1, 2),
        y_name: String::new(),
        items: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Module;
    use crate::experiment::outcome::SetupRow;
    use crate::replay::Interval;

    fn pair(predicted: f64, observed: f64) -> Pair {
        let around = |value: f64| Some(Interval { value, low: value * 0.9, high: value * 1.1 });
        Pair { predicted: around(predicted), observed: around(observed), error: None }
    }

    fn outcome(engine: &str, slots: u64) -> Outcome {
        let at = slots as f64;
        let setup = SetupRow {
            experiment: Module::Vhost,
            kernel: "6.12".to_owned(),
            slots,
            pattern: "random".to_owned(),
            order: "ascending".to_owned(),
            cached: false,
            exact: true,
        };
        let kind = KindOutcome {
            kind: Kind::Hit,
            lookups: 100,
            calls: 100,
            nodes: pair(at, at),
            search: pair(8.0 * at, 8.0 * at),
            whole: pair(300.0, 300.0),
            whole_median: pair(300.0 + 8.0 * at, 310.0 + 8.0 * at),
            whole_runs: Vec::new(),
        };
        Outcome {
            setup,
            engine: engine.to_owned(),
            predicted_search: None,
            observed_search: None,
            search_error: None,
            verified: 1000,
            verify_mismatches: 0,
            unsure: 0,
            lost: 0,
            more_by_probes: None,
            more_by_workload: None,
            build: None,
            way: 145.0,
            search_share: None,
            kinds: vec![kind],
        }
    }

    fn experiment(results: Vec<Outcome>) -> Experiment {
        Experiment {
            schema: 1,
            tool: String::new(),
            tolerance: 0.1,
            results,
            costs: Vec::new(),
            stock: Vec::new(),
        }
    }

    #[test]
    fn a_chart_of_growth_takes_two_sizes_and_one_of_misses_takes_misses() {
        let names = |results| {
            let images = draw_all(&experiment(results));
            images.into_iter().map(|image| image.0).collect::<Vec<_>>()
        };
        assert_eq!(names(vec![outcome("stock", 3), outcome("linear", 3)]), ["experiment-hits-predicted"]);
        assert_eq!(
            names(vec![outcome("linear", 3), outcome("linear", 53)]),
            ["experiment-hits-predicted", "experiment-hits-size"]
        );
        assert!(names(Vec::new()).is_empty());
    }

    #[test]
    fn points_stand_at_what_was_observed_and_are_as_high_as_predicted() {
        let experiment = experiment(vec![outcome("linear", 53), outcome("linear", 3)]);
        let series = series(&experiment, Kind::Hit);
        let panel = against(&series, &FIGURES[2]);
        let lines: Vec<&Vec<(f64, f64)>> = panel
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Line { points, marked: true, .. } => Some(points),
                _ => None,
            })
            .collect();
        assert_eq!(lines, [&vec![(334.0, 324.0), (734.0, 724.0)]]);
    }
}
