//! What is looked up: layouts of so many slots, and addresses.

use crate::engine::Range;
use crate::layouts::Generator;
use crate::model::{SlotChangeKind, VmId};
use crate::random::Random;
use crate::recording::Recording;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Slots of the layouts: the fewest of a guest, KVM's limit of 2011, vhost's case of 2015, the two
/// guests of 2014, KVM's limits up to 5.10 and since 5.15, and one between.
pub const SLOTS: [u32; 7] = [3, 32, 53, 117, 509, 4096, 32_764];

/// Addresses of a case.
const ADDRESSES: usize = 1 << 13;

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Every slot as often as the others, one in sixteen addresses in a gap.
    Uniform,
    /// The k-th largest slot k times as rarely as the largest.
    Skewed,
    /// As the vCPUs of a recording asked one after another, laid over the slots at hand.
    Recorded,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Skewed, Self::Recorded];

    /// The name in JSON and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Skewed => "skewed",
            Self::Recorded => "recorded",
        }
    }
}

/// A layout and the addresses to look up in it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Slots.
    pub slots: u32,
    /// Where the addresses are.
    pub pattern: Pattern,
    /// The slots' frames, in the order of creation.
    pub ranges: Vec<Range>,
    /// The frames asked for.
    pub addresses: Vec<u64>,
}

/// One recorded look-up: which slot in ascending order, and how far into it, of 2^32.
#[derive(Clone, Copy, Debug)]
struct Step {
    rank: u64,
    share: u64,
}

/// The sequences of look-ups that recordings hold, by number of slots.
#[derive(Clone, Debug, Default)]
pub struct Traces(BTreeMap<usize, Vec<Step>>);

impl Traces {
    /// Those of the recordings in `folder`, and how many there are; recordings without searched faults
    /// and those that cannot be read are passed over.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        Self(entries.filter_map(|entry| trace(&entry.path())).collect())
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The recording whose slots are nearest in number.
    fn nearest(&self, slots: u32) -> Option<(usize, &[Step])> {
        let (count, steps) = self.0.iter().min_by_key(|(count, _)| count.abs_diff(slots as usize))?;
        Some((*count, steps))
    }
}

/// The look-ups of a recording's first VM, by its largest layout.
fn trace(dir: &Path) -> Option<(usize, Vec<Step>)> {
    let recording = Recording::open(dir).ok()?;
    let mut held = BTreeMap::new();
    let mut largest: Vec<Range> = Vec::new();
    for change in recording.slot_changes().ok()?.flatten() {
        if change.vm != VmId(0) || change.as_id != 0 {
            continue;
        }
        match change.kind {
            SlotChangeKind::Delete => held.remove(&change.slot.id),
            _ => held.insert(change.slot.id, change.slot),
        };
        if held.len() > largest.len() {
            largest = held.values().filter_map(|slot| Range::of_slot(slot, 0)).collect();
        }
    }
    largest.sort_unstable_by_key(|range| range.start);
    let mut steps = Vec::with_capacity(ADDRESSES);
    let faults = recording.faults().ok()?.flatten();
    for fault in faults.filter(|fault| fault.vm == VmId(0) && fault.class.searches()).take(ADDRESSES) {
        let gfn = fault.gpa.gfn().0;
        let Some(rank) = largest.partition_point(|range| range.start <= gfn).checked_sub(1) else { continue };
        let range = largest[rank];
        let share =
            (u128::from((gfn - range.start).min(range.weight())) << 32) / (u128::from(range.weight()) + 1);
        steps.push(Step { rank: rank as u64, share: u64::try_from(share).unwrap_or(0) });
    }
    (steps.len() >= 1000).then_some((largest.len(), steps))
}

/// The case; the same every time. Without recordings the recorded pattern is a synthetic trace: runs
/// of neighbouring frames, as a guest touches memory.
#[must_use]
pub fn case(slots: u32, pattern: Pattern, traces: &Traces) -> Case {
    let layout = Generator::Random { count: slots, seed: 1 }.slots();
    let ranges: Vec<Range> =
        layout.iter().zip(0..).filter_map(|(slot, key)| Range::of_slot(slot, key)).collect();
    let mut random = Random::new(u64::from(slots), &[pattern as u64]);
    let addresses = match pattern {
        Pattern::Uniform => uniform(&ranges, &mut random),
        Pattern::Skewed => skewed(&ranges, &mut random),
        Pattern::Recorded => match traces.nearest(slots) {
            Some((count, steps)) => recorded(&ranges, count, steps),
            None => runs(&ranges, &mut random),
        },
    };
    Case { slots, pattern, ranges, addresses }
}

fn within(range: &Range, random: &mut Random) -> u64 {
    range.start + random.below(range.weight() + 1)
}

fn uniform(ranges: &[Range], random: &mut Random) -> Vec<u64> {
    let end = ranges.iter().map(|range| range.last).max().unwrap_or(0);
    let address = |_| match random.below(16) {
        0 => random.below(end),
        _ => {
            let place = random.index(ranges.len());
            within(&ranges[place], random)
        }
    };
    (0..ADDRESSES).map(address).collect()
}

fn skewed(ranges: &[Range], random: &mut Random) -> Vec<u64> {
    let mut largest = ranges.to_vec();
    largest.sort_by_key(|range| std::cmp::Reverse(range.weight()));
    // The k-th is drawn with weight 1/k: in units that keep the last one's weight above 0.
    let mut sum = 0;
    let upto: Vec<u64> = (1..)
        .take(largest.len())
        .map(|k| {
            sum += (1_u64 << 32) / k;
            sum
        })
        .collect();
    let address = |_| {
        let drawn = random.below(sum);
        within(&largest[upto.partition_point(|upto| *upto <= drawn)], random)
    };
    (0..ADDRESSES).map(address).collect()
}

fn runs(ranges: &[Range], random: &mut Random) -> Vec<u64> {
    let mut addresses = Vec::with_capacity(ADDRESSES + 64);
    while addresses.len() < ADDRESSES {
        let place = random.index(ranges.len());
        let first = within(&ranges[place], random);
        addresses.extend((0..1 + random.below(64)).map(|step| first + step));
    }
    addresses.truncate(ADDRESSES);
    addresses
}

fn recorded(ranges: &[Range], count: usize, steps: &[Step]) -> Vec<u64> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable_by_key(|range| range.start);
    let address = |step: &Step| {
        // Where the layout has more slots than the recording's, its slots are spread over them.
        let slots = sorted.len() as u64;
        let spread = (step.rank * slots + ((step.share * slots) >> 32)) / count as u64;
        let range = usize::try_from(spread).ok().and_then(|rank| sorted.get(rank)).copied();
        let range = range.unwrap_or(sorted[sorted.len() - 1]);
        let offset = (u128::from(step.share) * (u128::from(range.weight()) + 1)) >> 32;
        range.start + u64::try_from(offset).unwrap_or(0)
    };
    steps.iter().map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Engine, SortedArray};
    use crate::replay::synthetic::{self, Shape};

    fn hits(case: &Case) -> usize {
        let engine = SortedArray::build(&case.ranges).unwrap();
        case.addresses.iter().filter(|addr| engine.find(**addr).is_some()).count()
    }

    #[test]
    fn cases_repeat_and_mostly_hit() {
        let parent = tempfile::tempdir().unwrap();
        let shape = Shape { slots: 40, faults: 5000, churn: 0, translations: 0, ..Shape::default() };
        synthetic::write(&parent.path().join("one"), &shape).unwrap();
        let traces = Traces::read(parent.path());
        assert!(!traces.is_empty());
        for slots in [3, 53, 4096] {
            for pattern in Pattern::ALL {
                for traces in [&traces, &Traces::default()] {
                    let (one, again) = (case(slots, pattern, traces), case(slots, pattern, traces));
                    assert_eq!(one.addresses, again.addresses);
                    assert_eq!(one.ranges.len(), slots as usize);
                    assert!(hits(&one) * 10 > one.addresses.len() * 7, "{slots} {pattern:?} {}", hits(&one));
                }
            }
        }
    }

    #[test]
    fn skewed_addresses_prefer_the_largest_slots() {
        let case = case(117, Pattern::Skewed, &Traces::default());
        let largest = case.ranges.iter().max_by_key(|range| range.weight()).unwrap();
        let share = case.addresses.iter().filter(|addr| largest.contains(**addr)).count() * 100 / ADDRESSES;
        // 1 / (1 + 1/2 + … + 1/117) = 18.7 %
        assert!((16..=21).contains(&share), "{share}");
    }
}
