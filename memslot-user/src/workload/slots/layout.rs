//! The slots of a VM: shapes, order of creation, and where the guest's own pages lie.

use super::super::machine::ADDRESSABLE;
use super::super::random::Random;
use super::super::{Order, WorkloadError};
use crate::model::Gfn;
use serde::{Deserialize, Serialize};

/// A memory slot, as handed to `KVM_SET_USER_MEMORY_REGION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Slot {
    /// Slot id.
    pub id: u32,
    /// Address space, always 0: the guest never enters SMM.
    #[serde(default)]
    pub as_id: u16,
    /// First guest frame.
    pub base_gfn: Gfn,
    /// Length in pages, never 0.
    pub npages: u64,
}

impl Slot {
    /// The first frame past the slot.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base_gfn.0.saturating_add(self.npages)
    }
}

/// The shape of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// 1 MiB at 0, a large slot at 1 GiB, and small slots at a stride from 8 GiB on.
    Uniform {
        /// Slots in all, at least 3.
        slots: usize,
    },
    /// The three slots of 2011: below 1 MiB, 1 MiB to 3.5 GiB, and from 4 GiB on.
    Classic,
    /// Slots from a file, in the order of creation.
    Listed(Vec<Slot>),
}

/// The pages that the guest itself needs, a naturally aligned block within one slot: code, two page
/// tables, then the vCPUs' address lists. They are never refaulted and no access goes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Control {
    /// The slot that holds them.
    pub slot: u32,
    /// The first.
    pub first_gfn: Gfn,
    /// How many.
    pub npages: u64,
}

impl Control {
    /// Pages before the address lists: code and two page tables.
    pub(crate) const FIXED: u64 = 3;

    /// The first frame past the block.
    pub(crate) fn end(&self) -> u64 {
        self.first_gfn.0 + self.npages
    }
}

/// A layout in the order of creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The slots, in the order of creation.
    pub slots: Vec<Slot>,
    /// Where the guest's own pages lie.
    pub control: Control,
}

/// Pages of a small slot, and frames from one to the next.
pub(crate) const SMALL: u64 = 16;
const STRIDE: u64 = 32;
const MIB: u64 = 256;
const GIB: u64 = 1024 * MIB;
/// Where devices have their registers on a PC.
pub(crate) const MMIO_HOLE: u64 = 0xfe000;
/// Sizes of the control block that are tried, in pages, largest first.
const CONTROL_SIZES: [u64; 4] = [128, 64, 32, 16];

impl Layout {
    /// A layout of the given shape, its large slot (where the shape has one) `large` pages long.
    ///
    /// # Errors
    /// When the shape cannot be: too few slots, overlaps, addresses beyond the guest's reach, no room.
    pub fn new(shape: &Shape, large: u64, order: Order, seed: u64) -> Result<Self, WorkloadError> {
        let mut slots = match shape {
            Shape::Uniform { slots } => uniform(*slots, large)?,
            Shape::Classic => classic(large),
            Shape::Listed(slots) => slots.clone(),
        };
        check(&slots)?;
        match order {
            // A file's order is its own.
            Order::Ascending if matches!(shape, Shape::Listed(_)) => {}
            Order::Ascending => slots.sort_by_key(|slot| slot.base_gfn),
            Order::Shuffled => Random::new(seed, &[0x0de5]).shuffle(&mut slots),
        }
        let control = place_control(&slots)?;
        Ok(Self { slots, control })
    }
}

fn slot(id: usize, base: u64, npages: u64) -> Slot {
    Slot { id: u32::try_from(id).unwrap_or(u32::MAX), as_id: 0, base_gfn: Gfn(base), npages }
}

fn uniform(count: usize, large: u64) -> Result<Vec<Slot>, WorkloadError> {
    if count < 3 {
        return Err(WorkloadError::options("the uniform layout has at least 3 slots; raise --slots"));
    }
    if large == 0 || large > MMIO_HOLE - GIB {
        return Err(WorkloadError::options(format!(
            "the large slot starts at 1 GiB and must end below the MMIO hole: choose --large from 1 to {} MiB",
            (MMIO_HOLE - GIB) / MIB
        )));
    }
    let small = (2..count).map(|id| slot(id, 8 * GIB + (id as u64 - 2) * STRIDE, SMALL));
    Ok([slot(0, 0, MIB), slot(1, GIB, large)].into_iter().chain(small).collect())
}

fn classic(large: u64) -> Vec<Slot> {
    vec![slot(0, 0, MIB), slot(1, MIB, 3 * GIB + GIB / 2 - MIB), slot(2, 4 * GIB, large)]
}

/// What KVM or the guest's identity map would refuse, said before anything is set up.
fn check(slots: &[Slot]) -> Result<(), WorkloadError> {
    let mut ids: Vec<u32> = slots.iter().map(|slot| slot.id).collect();
    ids.sort_unstable();
    if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(WorkloadError::options(format!(
            "slot id {} occurs twice; correct the layout file",
            twice[0]
        )));
    }
    let mut sorted: Vec<&Slot> = slots.iter().collect();
    sorted.sort_by_key(|slot| slot.base_gfn);
    for slot in &sorted {
        let problem = if slot.as_id != 0 {
            "is in address space 1 (SMM), which the guest never enters"
        } else if slot.npages == 0 {
            "has no pages"
        } else if slot.end() > ADDRESSABLE.0 {
            "ends beyond 512 GiB, which the guest's identity map does not reach"
        } else {
            continue;
        };
        return Err(WorkloadError::options(format!("slot {} {problem}; correct the layout", slot.id)));
    }
    match sorted.windows(2).find(|pair| pair[0].end() > pair[1].base_gfn.0) {
        Some(pair) => Err(WorkloadError::options(format!(
            "slots {} and {} overlap; correct the layout",
            pair[0].id, pair[1].id
        ))),
        None => Ok(()),
    }
}

/// The largest block, in the lowest slot that can hold it. Natural alignment keeps it within one 2 MiB
/// table of KVM's, which one vCPU then maps for all.
fn place_control(slots: &[Slot]) -> Result<Control, WorkloadError> {
    let mut sorted: Vec<&Slot> = slots.iter().collect();
    sorted.sort_by_key(|slot| slot.base_gfn);
    for npages in CONTROL_SIZES {
        for slot in &sorted {
            let first = slot.base_gfn.0.next_multiple_of(npages);
            if first + npages <= slot.end() {
                return Ok(Control { slot: slot.id, first_gfn: Gfn(first), npages });
            }
        }
    }
    Err(WorkloadError::options(
        "no slot holds 64 KiB at an aligned address, which the guest's code, tables and address lists \
         need; add such a slot to the layout",
    ))
}

#[cfg(test)]
mod tests {
    use super::{Layout, Shape, Slot};
    use crate::model::Gfn;
    use crate::workload::Order;
    use proptest::prelude::*;

    fn listed(slots: &[(u32, u64, u64)]) -> Result<Layout, String> {
        let slots = slots
            .iter()
            .map(|&(id, base, npages)| Slot { id, as_id: 0, base_gfn: Gfn(base), npages })
            .collect();
        Layout::new(&Shape::Listed(slots), 0, Order::Ascending, 1).map_err(|error| error.to_string())
    }

    #[test]
    fn the_classic_layout_has_the_three_slots_of_2011() {
        let layout = Layout::new(&Shape::Classic, 1 << 18, Order::Ascending, 1).unwrap();
        let bounds: Vec<_> =
            layout.slots.iter().map(|slot| (slot.base_gfn.0 << 12, slot.end() << 12)).collect();
        assert_eq!(bounds, [(0, 1 << 20), (1 << 20, 0xe000_0000), (1 << 32, (1 << 32) + (1 << 30))]);
        assert_eq!((layout.control.first_gfn.0, layout.control.npages), (0, 128));
    }

    #[test]
    fn impossible_layouts_are_refused_with_the_slots_that_make_them_so() {
        assert_eq!(
            listed(&[(4, 0, 600), (7, 599, 1)]).unwrap_err(),
            "slots 4 and 7 overlap; correct the layout"
        );
        assert!(listed(&[(1, 0, 16), (1, 32, 16)]).unwrap_err().contains("slot id 1 occurs twice"));
        assert!(listed(&[(1, 0, 16), (2, 64, 0)]).unwrap_err().contains("slot 2 has no pages"));
        assert!(listed(&[(3, 1 << 27, 1)]).unwrap_err().contains("512 GiB"));
        assert!(listed(&[(3, u64::MAX, 2)]).unwrap_err().contains("512 GiB"));
        assert!(listed(&[(0, 1, 16)]).unwrap_err().contains("64 KiB"));
        assert!(listed(&[]).unwrap_err().contains("64 KiB"));
    }

    #[test]
    fn a_file_keeps_its_order_and_the_control_block_takes_what_alignment_leaves() {
        let layout = listed(&[(9, 0x1000, 100), (2, 0x10, 40)]).unwrap();
        assert_eq!(layout.slots.iter().map(|slot| slot.id).collect::<Vec<_>>(), [9, 2]);
        // 64 pages fit into slot 9 only, 32 would fit into both.
        assert_eq!((layout.control.slot, layout.control.first_gfn.0, layout.control.npages), (9, 0x1000, 64));
    }

    proptest! {
        #[test]
        fn slots_never_overlap_and_an_order_is_reproducible(count in 3_usize..5000, large in 1_u64..100_000,
                                                            seed: u64) {
            let shape = Shape::Uniform { slots: count };
            let ascending = Layout::new(&shape, large, Order::Ascending, seed).unwrap();
            prop_assert_eq!(ascending.slots.len(), count);
            for pair in ascending.slots.windows(2) {
                prop_assert!(pair[0].end() <= pair[1].base_gfn.0);
            }
            let shuffled = Layout::new(&shape, large, Order::Shuffled, seed).unwrap();
            prop_assert_eq!(&shuffled, &Layout::new(&shape, large, Order::Shuffled, seed).unwrap());
            let mut sorted = shuffled.slots;
            sorted.sort_by_key(|slot| slot.base_gfn);
            prop_assert_eq!(sorted, ascending.slots);
        }
    }
}
