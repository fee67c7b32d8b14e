//! The shift function: by how much each quantile differs, with a band that holds all of them at once.

use super::kind::{Figure, LEVELS, SHIFT_LEVELS, Unit};
use super::resample::Resampled;
use super::rows::{Pair, Stratum};
use crate::model::Probe;
use crate::stats::{hodges_lehmann, median, sup_t};
use serde::Serialize;

/// Calls in every run that the outermost quantiles, 5 and 95 %, take.
const CALLS: u64 = 200;

/// One kind of calls.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Shift {
    /// The probe.
    pub probe: Probe,
    /// Slots, regions or vCPUs.
    pub size: u64,
    /// Kind of calls.
    pub kind: &'static str,
    /// The same for people.
    #[serde(skip)]
    pub kind_name: &'static str,
    /// Of the figures.
    pub unit: Unit,
    /// From 5 % to 95 % in steps of 5.
    pub levels: Vec<Level>,
}

/// A quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Level {
    /// Share of the calls below it.
    pub level: f64,
    /// Median of the runs before.
    pub before: f64,
    /// Median of the runs after.
    pub after: f64,
    /// Hodges and Lehmann's shift.
    pub difference: f64,
    /// Lower edge of the band.
    pub low: f64,
    /// Upper edge.
    pub high: f64,
}

/// The shift functions of all kinds that were judged by runs or exactly.
pub(crate) fn shifts(
    strata: &[Stratum<'_>],
    pairs: &[Pair<'_>],
    exact: bool,
    progress: &dyn Fn(&str),
) -> Vec<Shift> {
    let medians = pairs
        .iter()
        .enumerate()
        .filter(|(_, pair)| pair.figure == Figure::Quantile(500) && pair.reasons.is_empty());
    medians
        .filter_map(|(place, pair)| {
            let stratum = strata.iter().find(|one| (one.probe, one.size) == (pair.probe, pair.size))?;
            let enough =
                (0..2).all(|side| stratum.kind_runs(side, pair.kind).iter().all(|run| run.calls >= CALLS));
            if !enough {
                return None;
            }
            progress(&format!("{}, {}: shift function", pair.probe.name(), pair.kind.name()));
            Some(Shift {
                probe: pair.probe,
                size: pair.size,
                kind: pair.kind.key(),
                kind_name: pair.kind.name(),
                unit: if exact { Unit::Instructions } else { Unit::Ns },
                levels: levels(pair, exact, place as u64)?,
            })
        })
        .collect()
}

fn levels(pair: &Pair<'_>, exact: bool, seed: u64) -> Option<Vec<Level>> {
    let at = |side: &[&super::Observed], level: usize| -> Vec<f64> {
        side.iter().filter_map(|run| run.values.get(level).copied()).collect()
    };
    let mut levels = Vec::with_capacity(SHIFT_LEVELS);
    for (place, level) in LEVELS[..SHIFT_LEVELS].iter().enumerate() {
        let (mut before, mut after) = (at(&pair.before, place), at(&pair.after, place));
        let difference = hodges_lehmann(&before, &after)?;
        levels.push(Level {
            level: f64::from(*level) / 1000.0,
            before: median(&mut before)?,
            after: median(&mut after)?,
            difference,
            low: difference,
            high: difference,
        });
    }
    if exact {
        return Some(levels);
    }
    let places: Vec<usize> = (0..SHIFT_LEVELS).collect();
    let drawn = Resampled::new(&pair.before, &pair.after, &places, seed);
    let off: Vec<Vec<f64>> = drawn
        .draws
        .iter()
        .zip(&levels)
        .map(|(draws, level)| draws.iter().map(|draw| draw[2] - level.difference).collect())
        .collect();
    let (factor, errors) = sup_t(&off);
    for (level, error) in levels.iter_mut().zip(errors) {
        let reach = factor * drawn.expansion() * error;
        (level.low, level.high) = (level.difference - reach, level.difference + reach);
    }
    Some(levels)
}
