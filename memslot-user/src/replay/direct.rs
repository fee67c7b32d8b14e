//! A replay without a recording: a layout, addresses, and who asks for them.

use super::cache::Caches;
use super::count::{Count, count};
use super::engines::{KernelTree, Lookup};
use super::outcome::{Interval, Steps, share};
use super::prepared::Prepared;
use super::run::{LastUsed, Progress};
use super::timing::Sample;
use crate::engine::{BuildError, Engine, EngineId, RbTree, SortedArray};
use crate::given::{Access, Layout};
use serde::Serialize;
use std::rc::Rc;

/// How a replay without a recording goes.
#[derive(Clone, Debug)]
pub struct DirectOptions {
    /// The engines.
    pub engines: Vec<EngineId>,
    /// The last-used range in front: one for all (`vm`), none (`off`), or else one for each vCPU or queue
    /// that an access names.
    pub last_used: LastUsed,
    /// Rounds of timing; 0 leaves the times 0.
    pub rounds: u32,
}

/// Hits, misses, and look-ups of a device's address.
const CLASSES: usize = 3;

/// An engine's figures.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Direct {
    /// Ranges of the layout.
    pub ranges: u64,
    /// Addresses.
    pub accesses: u64,
    /// Was the last-used range asked first?
    pub last_used: bool,
    /// Accesses that it answered, so that no engine sees them.
    pub last_used_answered: u64,
    /// Share of the accesses that it answered, 0 to 1; `None` where it is off or there are none.
    pub hit_rate: Option<f64>,
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
    let mut lookups = Vec::with_capacity(accesses.len());
    let mut caches = Caches::default();
    let mut answered = 0;
    let last_used = options.last_used != LastUsed::Off;
    for access in accesses {
        let who = if options.last_used == LastUsed::Vm { 0 } else { access.by };
        // The layout never changes: there is one generation.
        let held = caches.held(who, 0);
        if last_used && held.is_some_and(|range| range.contains(access.addr)) {
            answered += 1;
            continue;
        }
        let class = match oracle.search(access.addr, &mut ()) {
            Some(range) => {
                *held = Some(range);
                0
            }
            None => 1 + u8::from(devices.find(access.addr).is_some()),
        };
        lookups.push(Lookup { addr: access.addr, last: access.addr, event: 0, class });
    }
    let prepared = Prepared::new(&options.engines, &layout.ranges, KernelTree::Slots(&kernel));
    let mut counts: Vec<Count> = options.engines.iter().map(|id| Count::new(*id, CLASSES)).collect();
    count(&mut counts, &prepared, &lookups);
    let mut sample = Sample::new(CLASSES);
    sample.offer((0, 0, 0), &Rc::new(prepared), &lookups);
    let timing = sample.run(options.engines.len(), options.rounds, progress);
    let steps = |class: usize, engine: usize| {
        let ns = timing.by_class.get(class).and_then(|engines| engines.get(engine));
        Steps::new(counts[engine].lengths_of(class), ns.copied().unwrap_or_default())
    };
    let engines = counts
        .iter()
        .enumerate()
        .map(|(place, count)| DirectEngine {
            engine: count.id.name().to_owned(),
            mismatches: count.mismatches,
            hits: steps(0, place),
            misses: steps(1, place),
            mmio: steps(2, place),
            ns_per_lookup: timing.ns_per_lookup.get(place).copied().unwrap_or_default(),
        })
        .collect();
    Ok(Direct {
        ranges: layout.ranges.len() as u64,
        accesses: accesses.len() as u64,
        last_used,
        last_used_answered: answered,
        hit_rate: if last_used { share(answered, accesses.len() as u64) } else { None },
        timed_lookups: timing.lookups,
        rounds: options.rounds,
        engines,
    })
}
