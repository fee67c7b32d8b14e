//! Which guest frames a vCPU touches, in which order: a function of layout, options and seed.
//!
//! Each vCPU has pages of its own (every V-th of a slot), so that no two ever fault on the same page
//! at the same time, which would cost one of them a second fault.

use super::super::WorkloadError;
use super::super::random::Random;
use super::layout::{Control, MMIO_HOLE, Slot};
use crate::model::Gfn;
use std::sync::Arc;

/// In which order RAM is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Slot after slot by rising address, on each pass the next page of each.
    Sequential,
    /// Page after page by rising address: the last-used slot nearly always answers.
    Stream,
    /// Any slot, any page of it.
    Random,
    /// Nine in ten in the largest slot, the rest anywhere.
    Skewed,
}

/// What an access meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A slot.
    Ram,
    /// One of a few frames without a slot, used over and over.
    Mmio,
    /// A frame without a slot right behind one.
    Gap,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) gfn: Gfn,
    pub(crate) kind: Kind,
}

/// How the accesses are mixed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    pub(crate) pattern: Pattern,
    /// Percent of accesses to MMIO.
    pub(crate) mmio: u32,
    /// Percent of accesses to gaps.
    pub(crate) gap: u32,
    /// Accesses of one vCPU in one round.
    pub(crate) accesses: u64,
    pub(crate) seed: u64,
}

/// The frames `first`, `first + step`, … of one slot or gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stripe {
    first: u64,
    count: u64,
    step: u64,
}

impl Stripe {
    /// The share of vCPU `vcpu` of the frames from `start` to before `end`; `None` if it gets none.
    fn new(start: u64, end: u64, vcpu: u32, vcpus: u32) -> Option<Self> {
        let (first, step) = (start + u64::from(vcpu), u64::from(vcpus));
        (first < end).then(|| Self { first, count: (end - first).div_ceil(step), step })
    }

    fn frame(&self, index: u64) -> Gfn {
        Gfn(self.first + index % self.count * self.step)
    }
}

/// MMIO frames a vCPU.
const MMIO_FRAMES: u64 = 4;
/// Frames behind a slot that gap accesses use.
const GAP_FRAMES: u64 = 16;

/// The frames that one vCPU may touch in one round.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    ram: Vec<Stripe>,
    /// Frames in `ram` before each stripe, and in all.
    before: Vec<u64>,
    largest: usize,
    gaps: Vec<Stripe>,
    mmio: Stripe,
}

impl Targets {
    /// The targets of vCPU `vcpu` of `vcpus` among `slots`.
    pub(crate) fn new(
        slots: &[Slot],
        control: &Control,
        vcpu: u32,
        vcpus: u32,
    ) -> Result<Self, WorkloadError> {
        let mut sorted: Vec<Slot> = slots.to_vec();
        sorted.sort_by_key(|slot| slot.base_gfn);
        let top = sorted.last().map_or(0, Slot::end);
        let stripe = |start, end| Stripe::new(start, end, vcpu, vcpus);
        let ram: Vec<Stripe> = sorted
            .iter()
            .filter_map(|slot| {
                let (start, end) = accessible(slot, control);
                stripe(start, end)
            })
            .collect();
        if ram.is_empty() {
            return Err(WorkloadError::options(
                "the layout has fewer pages than vCPUs; enlarge a slot or lower --vcpus",
            ));
        }
        let starts = sorted.iter().skip(1).map(|slot| slot.base_gfn.0).chain([u64::MAX]);
        let gap_width = GAP_FRAMES.max(u64::from(vcpus));
        let gaps = sorted
            .iter()
            .zip(starts)
            .filter_map(|(slot, next)| stripe(slot.end(), next.min(slot.end() + gap_width)))
            .collect();
        let mmio_width = MMIO_FRAMES * u64::from(vcpus);
        let hole_is_free =
            sorted.iter().all(|slot| slot.end() <= MMIO_HOLE || slot.base_gfn.0 >= MMIO_HOLE + mmio_width);
        let mmio_start = if hole_is_free { MMIO_HOLE } else { top + gap_width };
        let mmio = stripe(mmio_start, mmio_start + mmio_width)
            .ok_or_else(|| WorkloadError::options("no frames are left for MMIO"))?;
        let before = std::iter::once(0)
            .chain(ram.iter().scan(0, |sum, stripe| {
                *sum += stripe.count;
                Some(*sum)
            }))
            .collect();
        // The last of equals, so that the choice does not depend on how `max_by_key` breaks ties.
        let largest = (0..ram.len()).max_by_key(|&index| (ram[index].count, index)).unwrap_or(0);
        Ok(Self { ram, before, largest, gaps, mmio })
    }

    /// The frame past the highest that any target has, for `vcpus` vCPUs.
    pub(crate) fn reach(top: u64, vcpus: u32) -> u64 {
        top + GAP_FRAMES.max(u64::from(vcpus)) + MMIO_FRAMES * u64::from(vcpus)
    }

    /// The `number`-th frame, counted page after page by rising address.
    fn streamed(&self, number: u64) -> Gfn {
        let number = number % self.before.last().copied().unwrap_or(1).max(1);
        let stripe = self.before.partition_point(|&before| before <= number) - 1;
        self.ram[stripe].frame(number - self.before[stripe])
    }
}

/// The frames of a slot that accesses may use: all but the control block and what lies on its smaller
/// side.
pub(crate) fn accessible(slot: &Slot, control: &Control) -> (u64, u64) {
    if slot.id != control.slot {
        return (slot.base_gfn.0, slot.end());
    }
    let (below, above) = (control.first_gfn.0 - slot.base_gfn.0, slot.end() - control.end());
    if above >= below { (control.end(), slot.end()) } else { (slot.base_gfn.0, control.first_gfn.0) }
}

/// The accesses of one vCPU in one round.
#[derive(Clone, Debug)]
pub(crate) struct Accesses {
    targets: Arc<Targets>,
    mix: Mix,
    random: Random,
    /// RAM accesses so far, from the first round on as if every access went to RAM.
    ram_number: u64,
    left: u64,
}

impl Accesses {
    pub(crate) fn new(targets: Arc<Targets>, mix: Mix, round: u64, vcpu: u32) -> Self {
        let random = Random::new(mix.seed, &[0xacce, round, u64::from(vcpu)]);
        Self { targets, mix, random, ram_number: round.wrapping_mul(mix.accesses), left: mix.accesses }
    }

    fn ram(&mut self) -> Gfn {
        let number = self.ram_number;
        self.ram_number = number.wrapping_add(1);
        let slots = self.targets.ram.len();
        let stripe = match self.mix.pattern {
            Pattern::Stream => return self.targets.streamed(number),
            Pattern::Sequential => {
                let slot = number % slots as u64;
                let stripe = self.targets.ram[usize::try_from(slot).unwrap_or(0)];
                return stripe.frame(number / slots as u64);
            }
            Pattern::Skewed if self.random.chance(90) => self.targets.largest,
            Pattern::Random | Pattern::Skewed => self.random.index(slots),
        };
        let stripe = self.targets.ram[stripe];
        stripe.frame(self.random.below(stripe.count))
    }
}

impl Iterator for Accesses {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        self.left = self.left.checked_sub(1)?;
        let share = u32::try_from(self.random.below(100)).unwrap_or(0);
        let access = if share < self.mix.mmio {
            Access { gfn: self.targets.mmio.frame(self.random.below(MMIO_FRAMES)), kind: Kind::Mmio }
        } else if share < self.mix.mmio + self.mix.gap {
            // There is always the gap above the highest slot.
            let gap = self.targets.gaps[self.random.index(self.targets.gaps.len())];
            Access { gfn: gap.frame(self.random.below(gap.count)), kind: Kind::Gap }
        } else {
            Access { gfn: self.ram(), kind: Kind::Ram }
        };
        Some(access)
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Layout, Shape};
    use super::{Access, Accesses, Kind, Mix, Pattern, Targets, accessible};
    use crate::workload::Order;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn mix(pattern: Pattern, mmio: u32, gap: u32, accesses: u64) -> Mix {
        Mix { pattern, mmio, gap, accesses, seed: 11 }
    }

    fn list(layout: &Layout, mix: Mix, round: u64, vcpu: u32, vcpus: u32) -> Vec<Access> {
        let targets = Targets::new(&layout.slots, &layout.control, vcpu, vcpus).unwrap();
        Accesses::new(Arc::new(targets), mix, round, vcpu).collect()
    }

    fn uniform(slots: usize) -> Layout {
        Layout::new(&Shape::Uniform { slots }, 512, Order::Ascending, 1).unwrap()
    }

    #[test]
    fn sequential_goes_from_slot_to_slot_and_on_in_the_next_round() {
        let layout = uniform(3);
        let frames: Vec<u64> = (0..2)
            .flat_map(|round| list(&layout, mix(Pattern::Sequential, 0, 0, 4), round, 0, 1))
            .map(|a| a.gfn.0)
            .collect();
        assert_eq!(frames, [0x80, 0x40000, 0x20_0000, 0x81, 0x40001, 0x20_0001, 0x82, 0x40002]);
    }

    #[test]
    fn stream_goes_from_page_to_page_and_round_again() {
        let layout = uniform(3);
        let frames: Vec<u64> = list(&layout, mix(Pattern::Stream, 0, 0, 128 + 512 + 16 + 2), 0, 0, 1)
            .iter()
            .map(|a| a.gfn.0)
            .collect();
        let pages = (0x80..0x100).chain(0x40000..0x40200).chain(0x20_0000..0x20_0010).chain([0x80, 0x81]);
        assert!(frames.iter().copied().eq(pages));
    }

    #[test]
    fn skewed_prefers_the_largest_slot() {
        let layout = uniform(100);
        let all = list(&layout, mix(Pattern::Skewed, 0, 0, 10_000), 0, 0, 1);
        let large = all.iter().filter(|access| (0x40000..0x40200).contains(&access.gfn.0)).count();
        assert!((8_900..9_200).contains(&large), "{large}");
    }

    #[test]
    fn mmio_leaves_its_usual_place_where_a_slot_lies_there() {
        let slots = serde_json::from_str(r#"[{"id":0,"base_gfn":0,"npages":2000000}]"#).unwrap();
        let layout = Layout::new(&Shape::Listed(slots), 0, Order::Ascending, 1).unwrap();
        let all = list(&layout, mix(Pattern::Random, 50, 50, 500), 0, 1, 2);
        assert!(all.iter().all(|access| access.gfn.0 >= 2_000_000));
        assert!(all.iter().all(|access| access.gfn.0 < Targets::reach(2_000_000, 2)));
    }

    proptest! {
        #[test]
        fn accesses_meet_what_they_claim_and_vcpus_share_no_frame(
            slots in 3_usize..200, mmio in 0_u32..60, gap in 0_u32..40, vcpus in 1_u32..9, round in 0_u64..5,
            pattern in prop::sample::select(vec![Pattern::Sequential, Pattern::Stream, Pattern::Random, Pattern::Skewed]),
        ) {
            let layout = uniform(slots);
            let mut taken = BTreeSet::new();
            for vcpu in 0..vcpus {
                let all = list(&layout, mix(pattern, mmio, gap, 300), round, vcpu, vcpus);
                prop_assert_eq!(all.len(), 300);
                prop_assert_eq!(&all, &list(&layout, mix(pattern, mmio, gap, 300), round, vcpu, vcpus));
                let mut own = BTreeSet::new();
                for access in all {
                    let frame = access.gfn.0;
                    let inside = layout.slots.iter().find(|slot| slot.base_gfn.0 <= frame && frame < slot.end());
                    prop_assert_eq!(inside.is_some(), access.kind == Kind::Ram);
                    if let Some(slot) = inside {
                        let (start, end) = accessible(slot, &layout.control);
                        prop_assert!(start <= frame && frame < end);
                    }
                    own.insert(frame);
                }
                for frame in own {
                    prop_assert!(taken.insert(frame), "frame {:#x} belongs to two vCPUs", frame);
                }
            }
        }
    }
}
