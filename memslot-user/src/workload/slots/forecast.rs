//! How many page faults a run will cause, from the plan alone.
//!
//! The rules, each checked against KVM's own behaviour: a page of RAM faults when it is first touched
//! and again after it was taken away; an access without a slot always faults; deleting or moving a
//! slot takes every page away, the guest's own included.

use super::super::WorkloadError;
use super::access::{Access, Kind};
use super::layout::{Control, Layout};
use super::plan::{Action, Change, Plan};
use super::{Config, Refault};
use serde::Serialize;
use std::collections::HashSet;

/// The numbers of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Forecast {
    /// Faults on pages of RAM.
    pub ram_faults: u64,
    /// Faults on the guest's own pages: code, page tables, address lists.
    pub control_faults: u64,
    /// Accesses without a slot, MMIO: each is a fault and an exit to user space.
    pub mmio_accesses: u64,
    /// Accesses without a slot, gaps: likewise.
    pub gap_accesses: u64,
    /// Accesses to RAM.
    pub ram_accesses: u64,
    /// Of all these accesses, the ones by which vCPU 0 opens page tables for the others.
    pub opening_accesses: u64,
}

impl Forecast {
    /// Calls of `kvm_mmu_page_fault`.
    #[must_use]
    pub fn page_faults(&self) -> u64 {
        self.ram_faults + self.control_faults + self.no_slot_exits()
    }

    /// Exits to user space for accesses without a slot.
    #[must_use]
    pub fn no_slot_exits(&self) -> u64 {
        self.mmio_accesses + self.gap_accesses
    }
}

/// The pages that KVM has mapped.
struct Mapped {
    data: HashSet<u64>,
    control: HashSet<u64>,
}

/// Addresses that the list of one vCPU holds.
pub(crate) fn list_capacity(control: &Control, vcpus: u32) -> u64 {
    list_pages(control, vcpus) * ADDRESSES_PER_PAGE
}

/// Pages of one vCPU's list.
pub(crate) fn list_pages(control: &Control, vcpus: u32) -> u64 {
    (control.npages - Control::FIXED) / u64::from(vcpus)
}

const ADDRESSES_PER_PAGE: u64 = 512;

/// Follows the plan through all rounds.
pub(crate) fn forecast(config: &Config, layout: &Layout) -> Result<(Forecast, Vec<Change>), WorkloadError> {
    let mut plan = Plan::new(config, layout);
    let mut numbers = Forecast::default();
    let mut mapped = Mapped { data: HashSet::new(), control: HashSet::new() };
    let mut changes = Vec::new();
    let capacity = list_capacity(&layout.control, config.vcpus);
    for round in 0..config.rounds {
        let content = plan.round()?;
        numbers.opening_accesses += content.openings.len() as u64;
        numbers.walk(0, content.openings.into_iter(), capacity, &mut mapped);
        for (vcpu, accesses) in (0_u64..).zip(content.accesses) {
            numbers.walk(vcpu, accesses, capacity, &mut mapped);
        }
        if round + 1 == config.rounds {
            break;
        }
        match config.refault {
            Refault::None => {}
            Refault::Dontneed | Refault::Mprotect => mapped.data.clear(),
            // The slot of the guest's own pages is not logged.
            Refault::Dirty => {
                let slot = plan.slots.iter().find(|slot| slot.id == plan.control.slot);
                let kept = slot.map_or(0..0, |slot| slot.base_gfn.0..slot.end());
                mapped.data.retain(|frame| kept.contains(frame));
            }
        }
        if let Some(change) = plan.advance()? {
            if change.action != Action::Create {
                mapped.data.clear();
                mapped.control.clear();
            }
            changes.push(change);
        }
    }
    Ok((numbers, changes))
}

impl Forecast {
    /// One vCPU works through a list of accesses, `capacity` at a time.
    fn walk(
        &mut self,
        vcpu: u64,
        accesses: impl Iterator<Item = Access>,
        capacity: u64,
        mapped: &mut Mapped,
    ) {
        let mut length = 0_u64;
        for access in accesses {
            length += 1;
            match access.kind {
                Kind::Ram => {
                    self.ram_accesses += 1;
                    self.ram_faults += u64::from(mapped.data.insert(access.gfn.0));
                }
                Kind::Mmio => self.mmio_accesses += 1,
                Kind::Gap => self.gap_accesses += 1,
            }
        }
        if length == 0 {
            return;
        }
        let first = Control::FIXED + vcpu * (capacity / ADDRESSES_PER_PAGE);
        let read = length.min(capacity).div_ceil(ADDRESSES_PER_PAGE);
        for page in (0..Control::FIXED).chain(first..first + read) {
            self.control_faults += u64::from(mapped.control.insert(page));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::{Kind, Pattern};
    use super::super::layout::{Layout, Shape};
    use super::super::plan::{Action, Plan};
    use super::super::{Churn, Config, Refault};
    use super::forecast;
    use proptest::prelude::*;

    fn config(slots: usize) -> Config {
        Config { shape: Shape::Uniform { slots }, large: 512, ..Config::default() }
    }

    fn run(config: &Config) -> (super::Forecast, Vec<super::Change>) {
        let layout = Layout::new(&config.shape, config.large, config.order, config.seed).unwrap();
        forecast(config, &layout).unwrap()
    }

    #[test]
    fn a_small_run_by_hand() {
        // Three slots in turn, 6 accesses a round: 6 pages; code, two tables and one list page once.
        let base = Config { pattern: Pattern::Sequential, accesses: 6, rounds: 2, ..config(3) };
        let (numbers, changes) = run(&Config { refault: Refault::None, ..base.clone() });
        assert_eq!((numbers.ram_faults, numbers.control_faults, numbers.page_faults()), (12, 4, 16));
        assert!(changes.is_empty());
        // 1200 accesses a round: 128 pages in the first slot, 400 in the second, 16 in the third.
        let long = Config { accesses: 1200, refault: Refault::Dontneed, ..base.clone() };
        let (numbers, _) = run(&long);
        assert_eq!((numbers.ram_faults, numbers.control_faults), (2 * (128 + 400 + 16), 3 + 3));
        // Dirty logging leaves the slot of the guest's own pages alone.
        let (numbers, _) = run(&Config { refault: Refault::Dirty, write: true, ..long.clone() });
        assert_eq!(numbers.ram_faults, 128 + 2 * (400 + 16));
        // A deletion takes everything away; the only slot that may go is the third.
        let (numbers, changes) = run(&Config { churn: Churn::Delete, refault: Refault::None, ..long });
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].slot.id, changes[0].action), (2, Action::Delete));
        assert_eq!((numbers.ram_faults, numbers.control_faults), (128 + 400 + 16 + 128 + 512, 6 + 6));
    }

    #[test]
    fn a_list_longer_than_its_pages_is_walked_in_parts() {
        let (numbers, _) = run(&Config { accesses: 200_000, rounds: 1, vcpus: 2, ..config(3) });
        assert_eq!(numbers.control_faults, 3 + 2 * 62);
        assert_eq!(numbers.ram_accesses, 400_000 + numbers.opening_accesses);
        // Tables: that of the first slot, the one of the large, the one of the small slot.
        assert_eq!(numbers.opening_accesses, 3);
    }

    #[test]
    fn running_out_of_slots_is_an_error() {
        let config = Config { churn: Churn::Delete, rounds: 4, ..config(4) };
        let layout = Layout::new(&config.shape, config.large, config.order, config.seed).unwrap();
        assert!(
            forecast(&config, &layout)
                .unwrap_err()
                .to_string()
                .contains("no slot is left to change after round 2")
        );
    }

    proptest! {
        /// The forecast against another way of counting: sort each round's frames and count the distinct.
        #[test]
        fn distinct_pages_are_counted_once_a_round(
            slots in 3_usize..80, vcpus in 1_u32..5, rounds in 1_u64..5, accesses in 1_u64..700, mmio in 0_u32..40,
            gap in 0_u32..40, seed: u64, pattern in prop::sample::select(vec![Pattern::Random, Pattern::Skewed, Pattern::Stream]),
        ) {
            let config = Config { vcpus, rounds, accesses, mmio, gap, seed, pattern, ..config(slots) };
            let (numbers, _) = run(&config);
            let layout = Layout::new(&config.shape, config.large, config.order, config.seed).unwrap();
            let mut plan = Plan::new(&config, &layout);
            let (mut faults, mut no_slot, mut all) = (0, 0, 0);
            for _ in 0..rounds {
                let round = plan.round().unwrap();
                let list: Vec<_> = round.openings.iter().copied().chain(round.accesses.into_iter().flatten()).collect();
                all += list.len() as u64;
                let mut frames: Vec<_> = list.iter().filter(|a| a.kind == Kind::Ram).map(|a| a.gfn).collect();
                no_slot += (list.len() - frames.len()) as u64;
                frames.sort_unstable();
                frames.dedup();
                faults += frames.len() as u64;
                plan.advance().unwrap();
            }
            prop_assert_eq!(numbers.ram_faults, faults);
            prop_assert_eq!(numbers.no_slot_exits(), no_slot);
            prop_assert_eq!(numbers.ram_accesses + no_slot, all);
            prop_assert_eq!(all - numbers.opening_accesses, accesses * rounds * u64::from(vcpus));
        }

        /// Whatever happens to the slots, they never overlap and ids are never used twice.
        #[test]
        fn churn_keeps_the_layout_sound(slots in 10_usize..60, seed: u64, churn in prop::sample::select(
            vec![Churn::Create, Churn::Move, Churn::Delete, Churn::Mixed])) {
            let config = Config { seed, churn, ..config(slots) };
            let layout = Layout::new(&config.shape, config.large, config.order, config.seed).unwrap();
            let mut plan = Plan::new(&config, &layout);
            for round in 0..7 {
                let change = plan.advance().unwrap().unwrap();
                prop_assert_eq!(change.after_round, round);
                let mut sorted = plan.slots.clone();
                sorted.sort_by_key(|slot| slot.base_gfn);
                for pair in sorted.windows(2) {
                    prop_assert!(pair[0].end() <= pair[1].base_gfn.0);
                }
                let mut ids: Vec<u32> = sorted.iter().map(|slot| slot.id).collect();
                ids.sort_unstable();
                ids.dedup();
                prop_assert_eq!(ids.len(), sorted.len());
                prop_assert_eq!(plan.slots.contains(&change.slot), change.action != Action::Delete);
            }
        }
    }
}
