//! The pure half: the table of regions and the descriptors, from the options and the seed.

use super::super::random::Random;
use super::super::{Order, WorkloadError};
use super::Config;
use crate::model::Region;
use serde::Serialize;

/// Which region a descriptor points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// One after the other by rising address.
    Sequential,
    /// Any.
    Random,
    /// Nine in ten the highest, the rest any.
    Skewed,
    /// Always the lowest.
    First,
    /// Always the highest.
    Last,
}

/// Guest address of the lowest region.
const BASE: u64 = 4 << 30;
/// Bytes of a region.
pub(crate) const SIZE: u64 = 64 << 10;
/// Header that virtio-net puts before each packet (`virtio_net_hdr_v1`), bytes. The memory is never
/// written, so each header is all zero: no offload.
const HEADER: u32 = 12;
/// Bytes of payload that one descriptor carries.
const PAYLOAD: u32 = 64;

/// The regions by rising address, and their order in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Bytes from one region to the next: [`SIZE`] where they adjoin, else with a hole between.
    stride: u64,
    count: u64,
    /// Index by address, in the order of insertion.
    pub(crate) order: Vec<u64>,
}

impl Table {
    pub(crate) fn new(config: &Config) -> Self {
        let mut order: Vec<u64> = (0..u64::from(config.regions)).collect();
        if config.order == Order::Shuffled {
            Random::new(config.seed, &[0x4e91]).shuffle(&mut order);
        }
        let stride = if config.cross > 0 { SIZE } else { 2 * SIZE };
        Self { stride, count: u64::from(config.regions), order }
    }

    /// The region that is `index`-th by address.
    pub(crate) fn region(&self, index: u64) -> Region {
        let start = BASE + index * self.stride;
        Region { start, last: start + SIZE - 1 }
    }

    /// The regions in the order of insertion.
    pub(crate) fn regions(&self) -> Vec<Region> {
        self.order.iter().map(|&index| self.region(index)).collect()
    }
}

/// One descriptor of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    /// Guest address.
    pub(crate) addr: u64,
    /// Bytes.
    pub(crate) len: u32,
    /// It begins in one region and ends in the next.
    pub(crate) crossing: bool,
    /// The packet goes on.
    pub(crate) next: bool,
}

/// All descriptors of a run, in the order in which vhost meets them.
#[derive(Clone, Debug)]
pub(crate) struct Descriptors<'a> {
    config: &'a Config,
    table: &'a Table,
    random: Random,
    number: u64,
    /// How many so far cross from one region to the next.
    pub(crate) crossing: u64,
}

impl<'a> Descriptors<'a> {
    pub(crate) fn new(config: &'a Config, table: &'a Table) -> Self {
        Self { config, table, random: Random::new(config.seed, &[0xde5c]), number: 0, crossing: 0 }
    }

    fn region(&mut self) -> u64 {
        let count = self.table.count;
        match self.config.pattern {
            Pattern::Sequential => self.number % count,
            Pattern::First => 0,
            Pattern::Last => count - 1,
            Pattern::Skewed if self.random.chance(90) => count - 1,
            Pattern::Random | Pattern::Skewed => self.random.below(count),
        }
    }
}

impl Iterator for Descriptors<'_> {
    type Item = Descriptor;

    fn next(&mut self) -> Option<Descriptor> {
        let chain = u64::from(self.config.chain);
        let place = self.number % chain;
        let len = match (place, chain) {
            (0, 1) => HEADER + PAYLOAD,
            (0, _) => HEADER,
            _ => PAYLOAD,
        };
        let region = self.region();
        let crossing = self.random.chance(self.config.cross);
        let addr = if crossing {
            // The highest region has no next one.
            let region = self.table.region(region.min(self.table.count - 2));
            region.last + 1 - (1 + self.random.below(u64::from(len) - 1))
        } else {
            self.table.region(region).start + self.random.below((SIZE - u64::from(len)) / 4 + 1) * 4
        };
        self.number += 1;
        self.crossing += u64::from(crossing);
        Some(Descriptor { addr, len, crossing, next: place + 1 < chain })
    }
}

impl Config {
    /// Packets that one kick announces.
    pub(crate) fn packets_per_kick(&self) -> u64 {
        u64::from(self.queue / self.chain)
    }

    /// Descriptors of the whole run.
    pub(crate) fn descriptors(&self) -> u64 {
        self.kicks * self.packets_per_kick() * u64::from(self.chain)
    }

    /// Refuses what cannot be, before anything is set up.
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        let refuse = |text: &str| Err(WorkloadError::options(text));
        if self.regions == 0 || self.regions > 65_536 {
            return refuse("--regions goes from 1 to 65536");
        }
        if self.cross > 100 {
            return refuse("--cross is a percentage, 0 to 100");
        }
        if self.cross > 0 && self.regions < 2 {
            return refuse("--cross needs a second region; raise --regions");
        }
        if !self.queue.is_power_of_two() || self.queue > 32_768 {
            return refuse("--queue is a power of two up to 32768, as virtio has it");
        }
        if self.chain == 0 || self.chain > self.queue || self.chain > MAX_CHAIN {
            return Err(WorkloadError::options(format!(
                "--chain goes from 1 to {} here",
                self.queue.min(MAX_CHAIN)
            )));
        }
        if self.kicks == 0 || self.kicks > u64::from(u32::MAX) {
            return refuse("--kicks goes from 1 to 4294967295");
        }
        Ok(())
    }
}

/// Descriptors of a packet at most: vhost gathers 1024 segments, and a crossing descriptor takes two;
/// packets also stay small enough to need no high-order allocation.
const MAX_CHAIN: u32 = 256;

#[cfg(test)]
mod tests {
    use super::{Config, Descriptors, Order, Pattern, Table};
    use proptest::prelude::*;

    fn patterns() -> impl Strategy<Value = Pattern> {
        prop::sample::select(vec![
            Pattern::Sequential,
            Pattern::Random,
            Pattern::Skewed,
            Pattern::First,
            Pattern::Last,
        ])
    }

    #[test]
    fn first_and_last_stay_where_they_are_and_sequential_goes_round() {
        let regions = |pattern| {
            let config = Config { regions: 3, pattern, chain: 1, ..Config::default() };
            let table = Table::new(&config);
            Descriptors::new(&config, &table)
                .take(7)
                .map(|descriptor| (descriptor.addr - (4 << 30)) / (128 << 10))
                .collect::<Vec<_>>()
        };
        assert_eq!(regions(Pattern::First), [0; 7]);
        assert_eq!(regions(Pattern::Last), [2; 7]);
        assert_eq!(regions(Pattern::Sequential), [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn a_kick_fills_the_queue_with_whole_packets() {
        let config = Config { queue: 1024, chain: 100, kicks: 3, ..Config::default() };
        assert_eq!((config.packets_per_kick(), config.descriptors()), (10, 3000));
    }

    #[test]
    fn impossible_options_are_refused() {
        let base = Config::default();
        assert!(base.check().is_ok());
        for (config, word) in [
            (Config { chain: 0, ..base.clone() }, "--chain"),
            (Config { chain: 257, ..base.clone() }, "1 to 256"),
            (Config { queue: 1000, ..base.clone() }, "--queue"),
            (Config { cross: 1, regions: 1, ..base.clone() }, "second region"),
            (Config { regions: 0, ..base.clone() }, "--regions"),
            (Config { kicks: 0, ..base }, "--kicks"),
        ] {
            assert!(config.check().unwrap_err().to_string().contains(word), "{word}");
        }
    }

    proptest! {
        #[test]
        fn regions_never_overlap_and_hold_every_descriptor(
            regions in 2_u32..600, chain in 1_u32..40, cross in 0_u32..101, pattern in patterns(), seed: u64,
            shuffled: bool,
        ) {
            let order = if shuffled { Order::Shuffled } else { Order::Ascending };
            let config = Config { regions, chain, cross, pattern, seed, order, ..Config::default() };
            let table = Table::new(&config);
            let mut sorted = table.regions();
            prop_assert_eq!(&sorted, &Table::new(&config).regions());
            sorted.sort_by_key(|region| region.start);
            for pair in sorted.windows(2) {
                prop_assert!(pair[0].last < pair[1].start);
            }
            for (number, descriptor) in Descriptors::new(&config, &table).take(300).enumerate() {
                let at = |addr| sorted.iter().position(|region| region.start <= addr && addr <= region.last);
                let begins = at(descriptor.addr).unwrap();
                let ends = at(descriptor.addr + u64::from(descriptor.len) - 1).unwrap();
                prop_assert_eq!(ends - begins, usize::from(descriptor.crossing));
                if descriptor.crossing {
                    prop_assert_eq!(sorted[begins].last + 1, sorted[ends].start);
                }
                prop_assert_eq!(descriptor.next, (number + 1) % chain as usize != 0);
            }
        }
    }
}
