//! A replay without a recording: a layout, addresses, and who asks for them.

use super::count::{Count, count};
use super::engines::{KernelTree, Lookup};
use super::join::Group;
use super::outcome::{Interval, Lengths};
use super::run::Progress;
use super::timing::Sample;
use crate::engine::{BuildError, Engine, EngineId, Range, RbTree, SortedArray};
use crate::given::{Access, Layout};
use serde::Serialize;
use std::collections::BTreeMap;

/// How a replay without a recording goes.
#[derive(Clone, Debug)]
pub struct DirectOptions {
    /// The engines.
    pub engines: Vec<EngineId>,
    /// A last-used range in front, one for each vCPU or queue.
    pub last_used: bool,
    /// Rounds of timing; 0 leaves the times 0.
    pub rounds: u32,
}

/// Look-ups of one kind in one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Steps {
    /// Look-ups.
    pub lookups: u64,
    /// Mean of the nodes or elements visited.
    pub visited_mean: f64,
    /// Nodes or elements visited, look-up by look-up.
    pub visited: Lengths,
}

/// An engine's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectEngine {
    /// The engine's name.
    pub engine: String,
    /// Look-ups with another answer than `linear`.
    pub mismatches: u64,
    /// Look-ups that found a range.
    pub hits: Steps,
    /// Look-ups that found none, and no device either.
    pub misses: Steps,
    /// Look-ups of a device's address, as the kernel makes for its first touch.
    pub mmio: Steps,
    /// Time of one look-up on this machine, over all kinds, ns.
    pub ns_per_lookup: Interval,
}

/// A replay without a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Direct {
    /// Ranges of the layout.
    pub ranges: u64,
    /// Addresses.
    pub accesses: u64,
    /// Was the last-used range asked first?
    pub last_used: bool,
    /// Accesses that it answered, so that no engine sees them.
    pub last_used_answered: u64,
    /// Look-ups that were timed, a round.
    pub timed_lookups: u64,
    /// Rounds of timing.
    pub rounds: u32,
    /// By engine.
    pub engines: Vec<DirectEngine>,
}

impl Direct {
    /// Every answer was right.
    #[must_use]
    pub fn sound(&self) -> bool {
        self.engines.iter().all(|engine| engine.mismatches == 0)
    }
}

/// Runs the accesses through the engines.
///
/// # Errors
/// The ranges overlap, or are more than can be numbered.
pub fn direct(
    layout: &Layout,
    accesses: &[Access],
    options: &DirectOptions,
    progress: &dyn Fn(Progress),
) -> Result<Direct, BuildError> {
    let kernel = RbTree::build(&layout.ranges)?;
    let oracle = SortedArray::build(&layout.ranges)?;
    let devices = SortedArray::build(&layout.mmio)?;
    // Hits, misses, MMIO.
    let mut kinds: [Vec<Lookup>; 3] = Default::default();
    let mut all = Vec::with_capacity(accesses.len());
    let mut held: BTreeMap<u32, Range> = BTreeMap::new();
    let mut answered = 0;
    for access in accesses {
        if options.last_used && held.get(&access.by).is_some_and(|range| range.contains(access.addr)) {
            answered += 1;
            continue;
        }
        let found = oracle.search(access.addr, &mut ());
        let kind = match found {
            Some(range) => {
                held.insert(access.by, range);
                0
            }
            None => 1 + usize::from(devices.find(access.addr).is_some()),
        };
        let lookup = Lookup { addr: access.addr, last: access.addr, event: 0 };
        kinds[kind].push(lookup);
        all.push(lookup);
    }
    let group = |lookups| Group { ranges: &layout.ranges, kernel: KernelTree::Slots(&kernel), lookups };
    let new = || options.engines.iter().copied().map(Count::new).collect::<Vec<_>>();
    let mut sample = Sample::default();
    let mut counts = Vec::with_capacity(kinds.len());
    for lookups in &kinds {
        let mut by_engine = new();
        let built = count(&mut by_engine, &group(lookups), 0);
        // Once only: the engines are the same for all kinds.
        if counts.is_empty() {
            sample.offer(built, &all);
        }
        counts.push(by_engine);
    }
    let timing = sample.run(options.engines.len(), options.rounds, progress);
    let steps = |kind: usize, engine: usize| {
        let visited = counts[kind][engine].lengths();
        Steps { lookups: counts[kind][engine].lookups, visited_mean: visited.mean(), visited }
    };
    let engines = options
        .engines
        .iter()
        .enumerate()
        .zip(timing.ns_per_lookup)
        .map(|((place, id), ns_per_lookup)| DirectEngine {
            engine: id.name().to_owned(),
            mismatches: counts.iter().map(|counts| counts[place].mismatches).sum(),
            hits: steps(0, place),
            misses: steps(1, place),
            mmio: steps(2, place),
            ns_per_lookup,
        })
        .collect();
    Ok(Direct {
        ranges: layout.ranges.len() as u64,
        accesses: accesses.len() as u64,
        last_used: options.last_used,
        last_used_answered: answered,
        timed_lookups: timing.lookups,
        rounds: options.rounds,
        engines,
    })
}
