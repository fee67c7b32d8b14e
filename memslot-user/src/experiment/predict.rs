//! What the calls would take with another search: from the stock kernel's recording and the costs alone.

use super::costs::{Costs, EngineCost};
use super::setup::{Error, Module};
use crate::model::Class;
use crate::recording::Recording;
use crate::replay::Interval;
use crate::replay::LastUsed;
use crate::replay::joined::{self, Calls, Path};
use crate::stats::{BlockBootstrap, percentile_interval};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Calls and look-ups that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A search found a range: RAM, or a translation.
    Hit,
    /// A search in vain: the first touch of MMIO, or a gap.
    Miss,
    /// What was found last answered, and nothing was searched.
    LastUsed,
    /// Cached MMIO: the fault itself searches nothing. The look-ups are the instruction emulator's, those that it makes
    /// for misses included.
    Mmio,
}

impl Kind {
    /// All of them, in the order of every table.
    pub const ALL: [Self; 4] = [Self::Hit, Self::Miss, Self::LastUsed, Self::Mmio];

    /// The name in JSON and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::LastUsed => "last_used",
            Self::Mmio => "mmio",
        }
    }
}

/// Figures of one kind of look-ups or calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Look-ups that searched.
    pub lookups: u64,
    /// Nodes that a search visits, on average.
    pub nodes: Option<Interval>,
    /// The search itself, on average, instructions.
    pub search: Option<Interval>,
    /// Calls of the function around it.
    pub calls: u64,
    /// The whole function, on average, instructions.
    pub whole: Option<Interval>,
    /// Its median.
    pub whole_median: Option<Interval>,
    /// Its mean in each recording.
    pub whole_runs: Vec<f64>,
    /// Its median in each recording.
    pub median_runs: Vec<f64>,
}

/// By kind.
pub type ByKind = BTreeMap<Kind, Figures>;

/// Blocks and draws of the bootstrap.
const BLOCKS: usize = 40;
const DRAWS: usize = 200;

/// The mean with an interval of chance within this recording: neighbours are alike, so blocks are drawn.
pub(super) fn mean(values: &[f64]) -> Option<Interval> {
    #[expect(clippy::cast_precision_loss, reason = "a number of calls")]
    let mean_of = |sum: f64, count: usize| sum / count as f64;
    if values.is_empty() {
        return None;
    }
    let mut before = Vec::with_capacity(values.len() + 1);
    before.push(0.0);
    for value in values {
        before.push(before[before.len() - 1] + value);
    }
    let mut bootstrap = BlockBootstrap::new(values.len(), BLOCKS, 1);
    let mut means: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let drawn = bootstrap.draw().fold((0.0, 0), |(sum, count), block| {
                (sum + before[block.end] - before[block.start], count + block.len())
            });
            mean_of(drawn.0, drawn.1)
        })
        .collect();
    let value = mean_of(before[values.len()], values.len());
    let (low, high) = percentile_interval(&mut means)?;
    Some(Interval { value, low: low.min(value), high: high.max(value) })
}

/// The median, likewise.
pub(super) fn median(values: &[f64]) -> Option<Interval> {
    let value = crate::stats::median(&mut values.to_vec())?;
    let mut bootstrap = BlockBootstrap::new(values.len(), BLOCKS, 1);
    let mut drawn = Vec::with_capacity(values.len());
    let mut medians = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        drawn.clear();
        bootstrap.draw().for_each(|block| drawn.extend_from_slice(&values[block]));
        let middle = drawn.len() / 2;
        medians.push(*drawn.select_nth_unstable_by(middle, f64::total_cmp).1);
    }
    let (low, high) = percentile_interval(&mut medians)?;
    Some(Interval { value, low: low.min(value), high: high.max(value) })
}

/// What a call's own search and the way to it take, by the costs.
#[derive(Clone, Copy, Default)]
struct Way {
    nodes: u32,
    search: f64,
    around: f64,
    searches: u32,
    found: bool,
}

/// Every joined call with its way through one engine.
fn ways(
    recording: &Recording,
    module: Module,
    last_used: LastUsed,
    engine: &str,
    cost: &EngineCost,
) -> Result<Vec<(joined::Call, Way)>, Error> {
    let Some(id) = module.model(engine) else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    let mut visit = |calls: &Calls<'_>| {
        // An engine that cannot be built is what the replay itself reports.
        let Ok(walker) = calls.walker(id) else { return };
        // Where nothing is searched, what was found last answers.
        let cached = Way { around: cost.again, ..Way::default() };
        let first = all.len();
        all.extend(calls.calls().map(|call| (call, cached)));
        for lookup in calls.lookups() {
            let Some((_, way)) = all.get_mut(first + lookup.call) else { continue };
            let path = walker.path(lookup.addr);
            if way.searches == 0 {
                way.around = 0.0;
            }
            way.searches += 1;
            way.nodes += path.visited();
            way.search += cost.search(&path);
            way.around += cost.around;
            way.found = lookup.found;
        }
    };
    joined::each(recording, module.probe(), last_used, &mut visit)?;
    Ok(all)
}

/// Predicts an engine from a recording of the stock kernel.
///
/// # Errors
/// The recording cannot be read.
pub fn predict(
    recording: &Recording,
    module: Module,
    cached: bool,
    engine: &str,
    costs: &Costs,
) -> Result<ByKind, Error> {
    let Some(cost) = costs.engines.get(engine) else { return Ok(ByKind::new()) };
    let stock = ways(recording, module, module.stock_last_used(), "stock", &costs.off)?;
    let other = ways(recording, module, module.last_used(cached), engine, cost)?;
    let mut lists: BTreeMap<Kind, Lists> = BTreeMap::new();
    let emulated = match module {
        Module::Kvm => Emulated::predict(recording, cached, engine, costs, &mut lists)?,
        Module::Vhost => Emulated::default(),
    };
    let mut no_slot = emulated.no_slot.into_iter();
    for (number, ((call, before), (_, after))) in stock.into_iter().zip(other).enumerate() {
        if !(call.plain || call.no_slot) {
            continue;
        }
        let kind = match (after.searches, after.found) {
            (0, _) => Kind::LastUsed,
            (_, true) => Kind::Hit,
            (_, false) => Kind::Miss,
        };
        let lists = lists.entry(kind).or_default();
        #[expect(clippy::cast_precision_loss, reason = "instructions of a call")]
        let latency = call.latency as f64;
        // The first call builds the index, and stands apart in what is observed.
        let emulated = if call.no_slot { no_slot.next().unwrap_or(0.0) } else { 0.0 };
        if number > 0 {
            let own = latency - before.search - before.around + after.search + after.around;
            lists.whole.push(own + emulated);
        }
        if after.searches > 0 {
            lists.nodes.push(f64::from(after.nodes));
            lists.search.push(after.search);
        }
    }
    Ok(lists.into_iter().map(|(kind, lists)| (kind, lists.figures())).collect())
}

/// What KVM's instruction emulator takes more or less with an engine, access by access.
///
/// It looks up the guest's code and the tables on the way to it: three frames, for the guest maps all by two tables. They
/// lie in one slot, that of the VM's first fault. Where the vCPU's last-used slot is another, the first of the three is a
/// search. No probe sees these look-ups; but each comes with a fault that is recorded, on no slot or of cached MMIO.
#[derive(Default)]
struct Emulated {
    /// Of the faults on no slot, as they were recorded.
    no_slot: Vec<f64>,
}

/// Frames that the emulator looks up.
const EMULATED: f64 = 3.0;

/// What the emulator's look-ups take. `same`: the slot was the last-used one before.
fn emulation_cost(cost: &EngineCost, path: &Path, asks_last: bool, same: bool) -> f64 {
    let searched = cost.around + cost.search(path);
    match (asks_last, same) {
        (false, _) => EMULATED * searched,
        (true, true) => EMULATED * cost.again,
        (true, false) => searched + (EMULATED - 1.0) * cost.again,
    }
}

impl Emulated {
    /// Puts cached MMIO into `lists`, and returns what is more for the others.
    fn predict(
        recording: &Recording,
        cached: bool,
        engine: &str,
        costs: &Costs,
        lists: &mut BTreeMap<Kind, Lists>,
    ) -> Result<Self, Error> {
        let mut emulated = Self::default();
        let (Some(cost), Some(id)) = (costs.engines.get(engine), Module::Kvm.model(engine)) else {
            return Ok(emulated);
        };
        let mut first = None;
        for fault in recording.faults()? {
            let fault = fault?;
            if fault.class == Class::Ram {
                first = Some((fault.gpa.gfn().0, fault.slot));
                break;
            }
        }
        let Some((code, slot)) = first else { return Ok(emulated) };
        let mut paths = None;
        joined::each(recording, Module::Kvm.probe(), LastUsed::On, &mut |calls| {
            if let (None, Ok(own), Ok(other)) =
                (paths, calls.walker(Module::Kvm.own_tree()), calls.walker(id))
            {
                paths = Some((own.path(code), other.path(code)));
            }
        })?;
        let Some((own, other)) = paths else { return Ok(emulated) };
        let emulation = lists.entry(Kind::Mmio).or_default();
        for fault in recording.faults()? {
            let fault = fault?;
            if !matches!(fault.class, Class::NoSlot | Class::MmioCached) {
                continue;
            }
            let same = fault.last_used == slot;
            let more =
                emulation_cost(cost, &other, cached, same) - emulation_cost(&costs.off, &own, true, same);
            if !cached || !same {
                emulation.nodes.push(f64::from(other.visited()));
                emulation.search.push(cost.search(&other));
            }
            if fault.class == Class::NoSlot {
                emulated.no_slot.push(more);
            } else {
                #[expect(clippy::cast_precision_loss, reason = "instructions of a call")]
                emulation.whole.push(fault.latency as f64 + more);
            }
        }
        Ok(emulated)
    }
}

/// Figures of a kind as they are gathered, call by call.
#[derive(Default)]
pub(super) struct Lists {
    nodes: Vec<f64>,
    search: Vec<f64>,
    pub(super) whole: Vec<f64>,
}

impl Lists {
    pub(super) fn figures(self) -> Figures {
        Figures {
            lookups: self.search.len() as u64,
            nodes: mean(&self.nodes),
            search: mean(&self.search),
            calls: self.whole.len() as u64,
            whole: mean(&self.whole),
            whole_median: median(&self.whole),
            ..Figures::default()
        }
    }
}

/// The kind of a recorded fault; `None` for what is no plain fault. `cached`: what was found last is asked first.
pub(super) fn kind_of_fault(class: Class, ret: i32, visited: Option<u32>, cached: bool) -> Option<Kind> {
    match class {
        Class::Ram if ret == 1 && cached && visited == Some(0) => Some(Kind::LastUsed),
        Class::Ram if ret == 1 => Some(Kind::Hit),
        Class::NoSlot => Some(Kind::Miss),
        Class::MmioCached => Some(Kind::Mmio),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::costs::Term;
    use super::*;
    use crate::replay::joined::End;

    #[test]
    fn the_first_of_the_emulators_look_ups_is_a_search_unless_the_slot_was_used_last() {
        let cost = EngineCost {
            engine: String::new(),
            terms: vec![(Term::Search, 10.0), (Term::NodeBelow, 7.0)],
            samples: 1,
            largest_error: 0.0,
            around: 100.0,
            again: 30.0,
        };
        let path = Path { above: 0, below: 2, rejected: 0, halvings: 0, end: End::Found };
        assert_eq!(emulation_cost(&cost, &path, true, true), 90.0);
        assert_eq!(emulation_cost(&cost, &path, true, false), 124.0 + 60.0);
        assert_eq!(emulation_cost(&cost, &path, false, true), 372.0);
    }

    #[test]
    fn the_mean_of_alike_calls_has_no_width_and_that_of_blocks_has_one() {
        let alike = mean(&[5.0; 1000]).unwrap();
        assert_eq!((alike.value, alike.low, alike.high), (5.0, 5.0, 5.0));
        let blocks: Vec<f64> = (0..1000_u32).map(|place| f64::from(place / 100)).collect();
        let blocks = mean(&blocks).unwrap();
        assert!((blocks.value - 4.5).abs() < 1e-9 && blocks.low < 4.0 && blocks.high > 5.0);
        assert!(mean(&[]).is_none() && median(&[]).is_none());
        let middle = median(&(0..1000_u32).map(|place| f64::from(place % 9)).collect::<Vec<_>>()).unwrap();
        assert_eq!((middle.value, middle.low, middle.high), (4.0, 4.0, 4.0));
    }
}
