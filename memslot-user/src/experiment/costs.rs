//! The instructions of a search as a sum over its way.
//!
//! A search's code has no loop but that over nodes, so its instructions are a sum: so many a node, by which side
//! it was left to, and so many for where the search ends. The summands are found by least squares from the
//! [calibration](super::calibration); that they give each sample back is checked, and the largest difference kept.

use super::calibration::{Calibration, Sample, tables};
use super::setup::Module;
use crate::engine::EngineId;
use crate::replay::joined::{End, Path, Walker};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a search's instructions are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    /// Once a search.
    Search,
    /// A node that begins above the address.
    NodeAbove,
    /// A node that begins at the address or below it.
    NodeBelow,
    /// A child that was read and not gone to.
    Rejected,
    /// A halving, or a level of a heap.
    Halving,
    /// The search ended in vain between ranges.
    EndsBetween,
    /// It ended in vain below all ranges.
    EndsBelow,
    /// It ended in vain above all ranges.
    EndsAbove,
}

const ENDS: [Term; 3] = [Term::EndsBetween, Term::EndsBelow, Term::EndsAbove];

impl Term {
    fn of(self, path: &Path) -> f64 {
        let ends = |end: End| f64::from(u8::from(path.end == end));
        match self {
            Self::Search => 1.0,
            Self::NodeAbove => f64::from(path.above),
            Self::NodeBelow => f64::from(path.below),
            Self::Rejected => f64::from(path.rejected),
            Self::Halving => f64::from(path.halvings),
            Self::EndsBetween => ends(End::Between),
            Self::EndsBelow => ends(End::Below),
            Self::EndsAbove => ends(End::Above),
        }
    }
}

/// What an engine's code branches on.
fn terms(engine: EngineId) -> Vec<Term> {
    let of_nodes: &[Term] = match engine {
        EngineId::SortedArray | EngineId::Eytzinger => &[Term::Halving],
        EngineId::IntervalTree => &[Term::NodeAbove, Term::NodeBelow, Term::Rejected],
        _ => &[Term::NodeAbove, Term::NodeBelow],
    };
    [&[Term::Search], of_nodes, &ENDS].concat()
}

/// What an engine's search takes.
#[derive(Clone, Debug, Serialize)]
pub struct EngineCost {
    /// The engine's name in the module.
    pub engine: String,
    /// Instructions by what they are counted by.
    pub terms: Vec<(Term, f64)>,
    /// Samples of the calibration.
    pub samples: usize,
    /// The largest difference of a sample from the sum.
    pub largest_error: f64,
    /// What the replaced function takes beside the search: the way through ftrace, finding the index.
    pub around: f64,
    /// What it takes where the item that was found last answers.
    pub again: f64,
}

impl EngineCost {
    /// The search of a path.
    pub(crate) fn search(&self, path: &Path) -> f64 {
        self.terms.iter().map(|(term, each)| each * term.of(path)).sum()
    }
}

/// What all of them take.
#[derive(Clone, Debug, Serialize)]
pub struct Costs {
    /// By the names of [`super::ENGINES`]; `stock` searches as the kernel does, and is reached through ftrace.
    pub engines: BTreeMap<String, EngineCost>,
    /// The kernel's own function while the patch is off.
    pub off: EngineCost,
}

/// Makes the costs from the calibration of the engines and that of the function itself.
///
/// # Errors
/// In words: which engine the calibration does not tell of.
pub fn costs(module: Module, engines: &Calibration, off: &Calibration) -> Result<Costs, String> {
    let samples = |calibration: &'_ Calibration, name: &str| -> Result<Vec<Sample>, String> {
        let found = calibration.engines.iter().find(|engine| engine.engine == name);
        found.map(|engine| engine.samples.clone()).ok_or_else(|| format!("{name} was not calibrated"))
    };
    let own = samples(engines, module.own_tree().name())?;
    let mut made = BTreeMap::new();
    for name in super::ENGINES {
        let mut of_engine = samples(engines, name)?;
        if name == "stock" {
            search_of(&mut of_engine, &own);
        }
        made.insert(name.to_owned(), engine_cost(module, name, &of_engine)?);
    }
    let mut of_kernel = samples(off, "off")?;
    search_of(&mut of_kernel, &own);
    let off = engine_cost(module, "stock", &of_kernel)?;
    Ok(Costs { engines: made, off: EngineCost { engine: "off".to_owned(), ..off } })
}

/// Stock's search cannot be timed in its place; that of the same tree by way of an index stands for it.
fn search_of(samples: &mut [Sample], own: &[Sample]) {
    for (sample, own) in samples.iter_mut().zip(own) {
        sample.search = own.search;
    }
}

#[expect(clippy::cast_precision_loss, reason = "instructions of one call")]
fn engine_cost(module: Module, name: &str, samples: &[Sample]) -> Result<EngineCost, String> {
    let id = module.model(name).ok_or_else(|| format!("there is no model of {name}"))?;
    let walkers: Result<Vec<Walker>, _> =
        tables(module).iter().map(|table| Walker::new(id, &table.ranges)).collect();
    let walkers = walkers.map_err(|error| format!("{name}: {error}"))?;
    let mut rows = Vec::with_capacity(samples.len());
    for sample in samples {
        let walker = walkers.get(sample.table).ok_or_else(|| format!("{name}: of another set of tables"))?;
        rows.push((walker.path(sample.address), sample.search as f64));
    }
    let terms = terms(id);
    let each = least_squares(&rows, &terms);
    let mut cost = EngineCost {
        engine: name.to_owned(),
        terms: terms.into_iter().zip(each).collect(),
        samples: samples.len(),
        largest_error: 0.0,
        around: median(samples.iter().map(|sample| sample.whole as f64 - sample.search as f64)),
        again: median(samples.iter().filter(|sample| sample.found).map(|sample| sample.again as f64)),
    };
    cost.largest_error = rows.iter().map(|(path, took)| (cost.search(path) - took).abs()).fold(0.0, f64::max);
    Ok(cost)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    crate::stats::median(&mut values.collect::<Vec<_>>()).unwrap_or(0.0)
}

/// The normal equations, by Gauss and Jordan; what the samples do not tell apart is 0.
fn least_squares(rows: &[(Path, f64)], terms: &[Term]) -> Vec<f64> {
    let size = terms.len();
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for (path, took) in rows {
        let values: Vec<f64> = terms.iter().map(|term| term.of(path)).collect();
        for (line, value) in matrix.iter_mut().zip(&values) {
            for (cell, other) in line.iter_mut().zip(values.iter().chain([took])) {
                *cell += value * other;
            }
        }
    }
    let mut solved = vec![None; size];
    let mut free: Vec<usize> = (0..size).collect();
    for column in 0..size {
        let best = free
            .iter()
            .copied()
            .max_by(|one, other| matrix[*one][column].abs().total_cmp(&matrix[*other][column].abs()));
        let Some(pivot) = best.filter(|line| matrix[*line][column].abs() > 1e-6) else { continue };
        free.retain(|line| *line != pivot);
        solved[column] = Some(pivot);
        let top = matrix[pivot].clone();
        for (number, line) in matrix.iter_mut().enumerate() {
            if number != pivot {
                let factor = line[column] / top[column];
                line.iter_mut().zip(&top).for_each(|(cell, above)| *cell -= factor * above);
            }
        }
    }
    let value = |column: usize| solved[column].map_or(0.0, |line| matrix[line][size] / matrix[line][column]);
    (0..size).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::super::calibration::EngineSamples;
    use super::*;

    /// A module whose searches take what the formula says.
    fn calibration(module: Module, name: &str, take: impl Fn(&Path) -> u64) -> Calibration {
        let id = module.model(name).unwrap();
        let mut samples = Vec::new();
        for (table, known) in tables(module).iter().enumerate() {
            let walker = Walker::new(id, &known.ranges).unwrap();
            for &address in &known.addresses {
                let path = walker.path(address);
                let search = take(&path);
                let found = path.end == End::Found;
                samples.push(Sample { table, address, search, whole: search + 148, again: 120, found });
            }
        }
        Calibration { module, engines: vec![EngineSamples { engine: name.to_owned(), samples }] }
    }

    #[test]
    fn the_summands_of_a_known_module_are_found_again() {
        let known = calibration(Module::Vhost, "linear", |path| {
            9 + 6 * u64::from(path.above) + 8 * u64::from(path.below) + u64::from(path.end != End::Found)
        });
        let cost = engine_cost(Module::Vhost, "linear", &known.engines[0].samples).unwrap();
        let each: Vec<f64> = cost.terms.iter().map(|(_, each)| (each * 1e6).round() / 1e6).collect();
        assert_eq!(each, [9.0, 6.0, 8.0, 1.0, 1.0, 1.0]);
        assert!(cost.largest_error < 1e-6);
        assert_eq!((cost.around, cost.again), (148.0, 120.0));
    }

    #[test]
    fn a_cost_that_the_model_does_not_know_shows_as_an_error() {
        let known = calibration(Module::Kvm, "eytzinger", |path| {
            20 + 6 * u64::from(path.halvings) + u64::from(path.above)
        });
        let cost = engine_cost(Module::Kvm, "eytzinger", &known.engines[0].samples).unwrap();
        assert!(cost.largest_error > 0.5);
    }
}
