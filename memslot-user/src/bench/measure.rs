//! The timed loop and what comes of it.

use super::{Case, Error, Pattern};
use crate::engine::{
    BTreeMapEngine, BuildError, Engine, Eytzinger, IntervalTree, Linear, LinearBySize, Range, RbTree,
    SortedArray, SortedArrayKernel, WbTree,
};
use crate::random::Random;
use crate::stats::median_interval;
use serde::Serialize;
use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The name of the standard library's binary search among the contenders.
pub(super) const PARTITION_POINT: &str = "partition_point";

/// Looks addresses up so many times over and says how long that took.
pub type Timed = Box<dyn Fn(&[u64], usize) -> (Duration, u64)>;

/// Something that is timed.
pub struct Contender {
    /// The engine's name, or `partition_point`.
    pub name: &'static str,
    /// Looks the addresses up so many times over: the time taken, and a checksum of the answers.
    pub run: Timed,
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The loop, compiled for each engine.
#[inline(never)]
fn pass(addresses: &[u64], passes: usize, find: impl Fn(u64) -> Option<u32>) -> (Duration, u64) {
    let mut sum = 0_u64;
    let start = Instant::now();
    for _ in 0..passes {
        for addr in addresses {
            sum = sum.rotate_left(1) ^ find(*addr).map_or(u64::MAX, u64::from);
        }
    }
    (start.elapsed(), black_box(sum))
}

fn engine<E: Engine + 'static>(ranges: &[Range]) -> Result<Contender, BuildError> {
    let engine = E::build(ranges)?;
    let run = move |addresses: &[u64], passes| pass(addresses, passes, |addr| engine.find(addr));
    Ok(Contender { name: E::ID.name(), run: Box::new(run) })
}

/// Every engine over `ranges`, and first the standard library's binary search over the same data.
///
/// # Errors
/// The ranges overlap or end before they start.
pub fn contenders(ranges: &[Range]) -> Result<Vec<Contender>, BuildError> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| range.start);
    let find = move |addr| {
        let place = sorted.partition_point(|range| range.start <= addr).checked_sub(1)?;
        sorted.get(place).filter(|range| addr <= range.last).map(|range| range.key)
    };
    let run = move |addresses: &[u64], passes| pass(addresses, passes, &find);
    Ok(vec![
        Contender { name: PARTITION_POINT, run: Box::new(run) },
        engine::<Linear>(ranges)?,
        engine::<LinearBySize>(ranges)?,
        engine::<SortedArray>(ranges)?,
        engine::<SortedArrayKernel>(ranges)?,
        engine::<WbTree>(ranges)?,
        engine::<RbTree>(ranges)?,
        engine::<IntervalTree>(ranges)?,
        engine::<BTreeMapEngine>(ranges)?,
        engine::<Eytzinger>(ranges)?,
    ])
}

/// How hard to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Rounds; each gives one time for each engine.
    pub rounds: u32,
    /// How long one engine is timed for in a round, at the least.
    pub slice: Duration,
}

impl Effort {
    /// About 50 s for all cases.
    pub const FULL: Self = Self { rounds: 101, slice: Duration::from_micros(800) };
    /// About 6 s.
    pub const QUICK: Self = Self { rounds: 31, slice: Duration::from_micros(300) };
}

/// A median with its interval at 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The median.
    pub value: f64,
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// One engine in one case.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// The engine's name, or `partition_point`.
    pub engine: &'static str,
    /// Slots of the layout.
    pub slots: u32,
    /// Addresses asked for.
    pub pattern: Pattern,
    /// ns a look-up, median of the rounds.
    pub ns_per_lookup: f64,
    /// Time over that of the standard library's binary search, median of the rounds.
    pub ratio_to_partition_point: f64,
    /// Time over that of `btreemap`.
    pub ratio_to_btreemap: f64,
    /// Time over that of `sorted_array`.
    pub ratio_to_sorted_array: f64,
    /// The same with their intervals.
    pub intervals: Intervals,
}

/// Intervals of a figure's medians.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Intervals {
    /// ns a look-up.
    pub ns_per_lookup: Interval,
    /// Over the standard library's binary search.
    pub ratio_to_partition_point: Interval,
    /// Over `btreemap`.
    pub ratio_to_btreemap: Interval,
    /// Over `sorted_array`.
    pub ratio_to_sorted_array: Interval,
}

/// Addresses that are checked against the others' answers before anything is timed.
const CHECKED: usize = 512;

/// Times every engine on a case.
///
/// # Errors
/// An engine cannot be built, or answers otherwise than the others.
#[expect(clippy::cast_precision_loss, reason = "times and counts far below 2^53")]
pub fn measure(case: &Case, effort: Effort) -> Result<Vec<Figure>, Error> {
    let contenders = contenders(&case.ranges)?;
    let checked = &case.addresses[..CHECKED.min(case.addresses.len())];
    let (_, expected) = (contenders[0].run)(checked, 1);
    let mut plans = Vec::with_capacity(contenders.len());
    for contender in &contenders {
        let (_, sum) = (contender.run)(checked, 1);
        if sum != expected {
            return Err(Error::Wrong { engine: contender.name, slots: case.slots });
        }
        // The first time everything was cold.
        let (time, _) = (contender.run)(checked, 1);
        plans.push(plan(case.addresses.len(), checked.len(), time, effort.slice));
    }
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    let mut random = Random::new(u64::from(case.slots), &[]);
    let mut times = vec![Vec::with_capacity(effort.rounds as usize); contenders.len()];
    for round in 0..=effort.rounds {
        random.shuffle(&mut order);
        for &place in &order {
            let (addresses, passes) = plans[place];
            let addresses_of_turn = &case.addresses[..addresses];
            // The engine before it has driven this one out of the caches: a list of 32,764 slots alone fills them.
            let (_, _) = (contenders[place].run)(addresses_of_turn, 1);
            let (time, _) = (contenders[place].run)(addresses_of_turn, passes);
            // The first round warms the branch predictor, too.
            if round > 0 {
                times[place].push(time.as_nanos() as f64 / (addresses * passes) as f64);
            }
        }
    }
    let times_of =
        |name| contenders.iter().zip(&times).find(|(one, _)| one.name == name).map(|(_, times)| times);
    let figure = |(contender, own): (&Contender, &Vec<f64>)| {
        let over = |name| {
            let ratios =
                times_of(name).map(|base| own.iter().zip(base).map(|(own, base)| own / base).collect());
            interval(ratios.unwrap_or_default())
        };
        let intervals = Intervals {
            ns_per_lookup: interval(own.clone()),
            ratio_to_partition_point: over(PARTITION_POINT),
            ratio_to_btreemap: over("btreemap"),
            ratio_to_sorted_array: over("sorted_array"),
        };
        Figure {
            engine: contender.name,
            slots: case.slots,
            pattern: case.pattern,
            ns_per_lookup: intervals.ns_per_lookup.value,
            ratio_to_partition_point: intervals.ratio_to_partition_point.value,
            ratio_to_btreemap: intervals.ratio_to_btreemap.value,
            ratio_to_sorted_array: intervals.ratio_to_sorted_array.value,
            intervals,
        }
    };
    Ok(contenders.iter().zip(&times).map(figure).collect())
}

/// How many of the addresses, how many times over. All of them, so that every engine has as many in
/// the caches and as many for the branch predictor to learn; only what would take very long, as the
/// linear engines over thousands of slots, gets fewer.
fn plan(all: usize, tried: usize, time: Duration, slice: Duration) -> (usize, usize) {
    const LEAST: usize = 256;
    /// Slices that one turn may take.
    const MOST: u128 = 40;
    let each = (time.as_nanos() / tried.max(1) as u128).max(1);
    let whole = each * all as u128;
    let fewer = usize::try_from(slice.as_nanos() / each).unwrap_or(all);
    let addresses = if whole > MOST * slice.as_nanos() { fewer.clamp(LEAST.min(all), all) } else { all };
    (addresses, usize::try_from(slice.as_nanos() / whole).unwrap_or(1).max(1))
}

fn interval(mut values: Vec<f64>) -> Interval {
    values.sort_unstable_by(f64::total_cmp);
    median_interval(&values).map(|(value, low, high)| Interval { value, low, high }).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Traces, case};

    #[test]
    fn every_engine_gets_a_figure_whose_ratios_hold() {
        let case = case(53, Pattern::Uniform, &Traces::default());
        let effort = Effort { rounds: 5, slice: Duration::from_micros(50) };
        let figures = measure(&case, effort).unwrap();
        assert_eq!(figures.len(), 1 + crate::engine::EngineId::ALL.len());
        for figure in &figures {
            let ns = figure.intervals.ns_per_lookup;
            assert!(0.0 < ns.low && ns.low <= ns.value && ns.value <= ns.high, "{figure:?}");
        }
        assert_eq!(
            figures[0].intervals.ratio_to_partition_point,
            Interval { value: 1.0, low: 1.0, high: 1.0 }
        );
        let of = |name| figures.iter().find(|figure| figure.engine == name).unwrap();
        assert_eq!(of("btreemap").ratio_to_btreemap, 1.0);
        assert!(of("linear").ratio_to_sorted_array > 1.0);
    }

    #[test]
    fn only_a_very_slow_engine_gets_fewer_addresses() {
        let slice = Duration::from_micros(1000);
        assert_eq!(plan(16_384, 512, Duration::from_nanos(512 * 5), slice), (16_384, 12));
        assert_eq!(plan(16_384, 512, Duration::from_nanos(512 * 500), slice), (16_384, 1));
        assert_eq!(plan(16_384, 512, Duration::from_nanos(512 * 50_000), slice), (256, 1));
    }
}
