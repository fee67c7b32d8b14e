//! The rounds of a run: what each vCPU touches, which pages are touched beforehand, and how the slots
//! change in between. The forecast and the run itself both follow it.

use super::super::WorkloadError;
use super::super::machine::ADDRESSABLE;
use super::super::random::Random;
use super::access::{Access, Accesses, Targets};
use super::layout::{Control, Layout, SMALL, Slot};
use super::{Churn, Config};
use crate::model::Gfn;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;

/// What is done to a slot between two rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "change", rename_all = "lowercase")]
pub enum Action {
    /// A new slot.
    Create,
    /// The slot goes.
    Delete,
    /// The slot, with its contents, gets another place.
    Move {
        /// Where it was.
        old_base_gfn: Gfn,
    },
}

/// A change of the slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Change {
    /// The round, from 0, after which it comes.
    pub after_round: u64,
    /// What is done.
    #[serde(flatten)]
    pub action: Action,
    /// The slot after it; before it, where it is deleted.
    #[serde(flatten)]
    pub slot: Slot,
}

/// One round.
pub(crate) struct Round {
    /// Touched by vCPU 0 alone before the others start: a page under each of KVM's page tables that
    /// the round needs and nobody has touched. Two vCPUs that found the same table missing would
    /// race to install it, and the loser would fault twice. Empty with one vCPU.
    pub(crate) openings: Vec<Access>,
    /// By vCPU.
    pub(crate) accesses: Vec<Accesses>,
}

/// The state of the slots as the rounds go by.
pub(crate) struct Plan<'a> {
    config: &'a Config,
    /// The slots, in the order of their creation (a moved slot stays in its place).
    pub(crate) slots: Vec<Slot>,
    pub(crate) control: Control,
    round: u64,
    next_id: u32,
    /// Kept, so that patterns have their large slot in every round.
    largest: u32,
    random: Random,
    /// 2 MiB tables that exist, by frame / 512.
    opened: HashSet<u64>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(config: &'a Config, layout: &Layout) -> Self {
        Self {
            config,
            slots: layout.slots.clone(),
            control: layout.control,
            round: 0,
            next_id: layout.slots.iter().map(|slot| slot.id).max().map_or(0, |id| id.saturating_add(1)),
            largest: layout.slots.iter().max_by_key(|slot| (slot.npages, slot.id)).map_or(0, |slot| slot.id),
            random: Random::new(config.seed, &[0xc4a6]),
            opened: HashSet::new(),
        }
    }

    /// The present round.
    pub(crate) fn round(&mut self) -> Result<Round, WorkloadError> {
        let top = self.slots.iter().map(Slot::end).max().unwrap_or(0);
        if Targets::reach(top, self.config.vcpus) > ADDRESSABLE.0 {
            return Err(WorkloadError::options(
                "the frames above the highest slot lie beyond 512 GiB, which the guest does not reach; \
                 end the layout lower",
            ));
        }
        let accesses = (0..self.config.vcpus)
            .map(|vcpu| {
                let targets = Targets::new(&self.slots, &self.control, vcpu, self.config.vcpus)?;
                Ok(Accesses::new(Arc::new(targets), self.config.mix(), self.round, vcpu))
            })
            .collect::<Result<Vec<_>, WorkloadError>>()?;
        let mut openings = Vec::new();
        if self.config.vcpus > 1 {
            for access in accesses.iter().cloned().flatten() {
                if self.opened.insert(access.gfn.0 / 512) {
                    openings.push(access);
                }
            }
        }
        Ok(Round { openings, accesses })
    }

    /// Goes on to the next round; says what changes on the way.
    pub(crate) fn advance(&mut self) -> Result<Option<Change>, WorkloadError> {
        let after_round = self.round;
        self.round += 1;
        let action = match self.config.churn {
            Churn::None => return Ok(None),
            Churn::Mixed => {
                [Churn::Create, Churn::Move, Churn::Delete][usize::try_from(after_round % 3).unwrap_or(0)]
            }
            other => other,
        };
        // A gap stays between the highest slot and what is put above it.
        let top = Gfn(self.slots.iter().map(Slot::end).max().unwrap_or(0) + SMALL);
        let (action, slot) = match action {
            Churn::Create => {
                let slot = Slot { id: self.next_id, as_id: 0, base_gfn: top, npages: SMALL };
                self.next_id += 1;
                self.slots.push(slot);
                (Action::Create, slot)
            }
            Churn::Move => {
                let index = self.pick()?;
                let slot = &mut self.slots[index];
                let old_base_gfn = std::mem::replace(&mut slot.base_gfn, top);
                (Action::Move { old_base_gfn }, *slot)
            }
            _ => {
                let index = self.pick()?;
                (Action::Delete, self.slots.remove(index))
            }
        };
        if action != Action::Create {
            // KVM drops every page table of the VM when a slot goes or moves (kvm_mmu_zap_all_fast).
            self.opened.clear();
        }
        Ok(Some(Change { after_round, action, slot }))
    }

    /// A slot that may be moved or deleted: neither the largest nor the one with the guest's own pages.
    fn pick(&mut self) -> Result<usize, WorkloadError> {
        let free = |slot: &Slot| slot.id != self.control.slot && slot.id != self.largest;
        let candidates: Vec<usize> =
            self.slots.iter().enumerate().filter(|(_, slot)| free(slot)).map(|(index, _)| index).collect();
        if candidates.is_empty() {
            return Err(WorkloadError::options(format!(
                "no slot is left to change after round {}; use more slots or fewer --rounds",
                self.round - 1
            )));
        }
        Ok(candidates[self.random.index(candidates.len())])
    }
}
