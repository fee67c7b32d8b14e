//! The workload of an experiment: what is registered in which order, and what is looked up.

use super::{Args, Which};
use serde::Serialize;

/// Order of registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Order {
    /// By rising address
    Ascending,
    /// Drawn at random, always the same
    Shuffled,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Shuffled => "shuffled",
        }
    }
}

/// Name of the layout's file in the guest's working directory.
pub(super) const FILE: &str = "layout.json";

/// Percent of faults on MMIO, and of those on gaps.
const MMIO: u32 = 5;
const ROUNDS: u64 = 4;
/// Descriptors that one kick announces.
const KICK: u64 = 1024;

/// The command in the guest. `$here` is where the layout's file lies.
pub(super) fn workload(args: &Args, slots: u64) -> String {
    let pattern = &args.pattern;
    match args.series {
        Which::Vhost => format!(
            "memslot workload vhost --regions {slots} --order {} --pattern {pattern} --kicks {}",
            args.order.name(),
            args.calls.div_ceil(KICK)
        ),
        Which::Kvm => {
            let layout = match (args.classic, args.order) {
                (true, order) => format!("--layout 2011 --order {}", order.name()),
                (false, Order::Ascending) => format!("--slots {slots}"),
                (false, Order::Shuffled) => format!("--layout file --layout-file $here/{FILE}"),
            };
            format!(
                "memslot workload slots {layout} --pattern {pattern} --accesses {} --rounds {ROUNDS} --refault mprotect \
                 --mmio {MMIO} --gap {MMIO}",
                args.calls / ROUNDS
            )
        }
    }
}

/// A slot as `memslot workload slots --layout-file` takes it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Slot {
    id: u64,
    base_gfn: u64,
    npages: u64,
}

const GIB: u64 = 1 << 18;

/// The uniform layout of the workload, created in a random order and numbered in that order: KVM does not keep the order
/// of creation, so the module goes by id.
pub(super) fn shuffled(count: u64) -> Vec<Slot> {
    let small = (2..count).map(|number| (8 * GIB + (number - 2) * 32, 16));
    let mut ranges: Vec<(u64, u64)> = [(0, 256), (GIB, GIB / 4)].into_iter().chain(small).collect();
    // Knuth's MMIX generator; Fisher and Yates.
    let mut state = 1_u64;
    for place in (1..ranges.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from((state >> 33) % (place as u64 + 1)).unwrap_or(0);
        ranges.swap(place, other);
    }
    ranges.into_iter().zip(0..).map(|((base_gfn, npages), id)| Slot { id, base_gfn, npages }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffled_slots_are_the_uniform_ones_numbered_as_they_are_created() {
        let slots = shuffled(53);
        assert!(slots.iter().zip(0..).all(|(slot, id)| slot.id == id));
        assert!(slots.windows(2).any(|pair| pair[0].base_gfn > pair[1].base_gfn));
        let mut bases: Vec<(u64, u64)> = slots.iter().map(|slot| (slot.base_gfn, slot.npages)).collect();
        bases.sort_unstable();
        assert_eq!(bases[..3], [(0, 256), (1 << 18, 1 << 16), (8 << 18, 16)]);
        assert_eq!(bases[52], ((8 << 18) + 50 * 32, 16));
        assert_eq!(shuffled(53), slots);
    }
}
