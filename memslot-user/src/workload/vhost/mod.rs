//! Address translations: a vhost-net transmit queue of our own, without a VM.

mod device;
mod queue;
mod stress;
mod table;
mod tap;

pub use stress::stress;
pub use table::Pattern;

use super::expectation::TRANSLATE;
use super::memory::Mapping;
use super::{Expectation, Host, Observer, Order, WorkloadError};
use crate::model::Region;
use device::VhostNet;
use queue::Queue;
use serde::Serialize;
use std::time::Instant;
use table::{Descriptors, SIZE, Table};
use tap::Tap;

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Regions in the table.
    pub regions: u32,
    /// Order in which they are inserted.
    pub order: Order,
    /// Which region a descriptor points into.
    pub pattern: Pattern,
    /// Descriptors of a packet.
    pub chain: u32,
    /// Percent of descriptors that cross from one region to the next; above 0 the regions adjoin.
    pub cross: u32,
    /// How often the queue is filled and vhost woken.
    pub kicks: u64,
    /// Descriptors of the queue, a power of two.
    pub queue: u32,
    /// Seed of all that is random.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            regions: 53,
            order: Order::Ascending,
            pattern: Pattern::Random,
            chain: 16,
            cross: 0,
            kicks: 10,
            queue: 1024,
            seed: 1,
        }
    }
}

/// What a run was and what it caused.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Report {
    /// `vhost`
    pub workload: &'static str,
    /// The process that owned the device.
    pub pid: u32,
    /// Calls of the probed functions.
    #[serde(flatten)]
    pub expectation: Expectation,
    /// Packets sent.
    pub packets: u64,
    /// Descriptors translated, one call each.
    pub descriptors: u64,
    /// Of them, those that cross from one region to the next: two segments and two searches each.
    pub crossing: u64,
    /// Searches of the table, which is also the number of segments.
    pub searches: u64,
    /// Packets that the host's stack got from the tap, dropped ones included.
    pub received: Option<u64>,
    /// Length of the counted part, ns.
    pub duration_ns: u64,
    /// The tap's name.
    pub tap: String,
    /// The seed.
    pub seed: u64,
    /// The regions, in the order of insertion.
    pub regions: Vec<Region>,
}

/// Runs the workload: sets the device up, announces the forecast, performs it, announces the end.
///
/// # Errors
/// Contradicting options, or a host without usable vhost-net or tap.
pub fn run(config: &Config, host: &Host, observer: &mut dyn Observer) -> Result<Report, WorkloadError> {
    config.check()?;
    let table = Table::new(config);
    let descriptors = config.descriptors();
    let mut expectation = Expectation::new(host);
    expectation.set(TRANSLATE, descriptors, None);

    let length = u64::from(config.regions) * SIZE;
    let ram = Mapping::new(usize::try_from(length).unwrap_or(usize::MAX))?;
    let vhost = VhostNet::open()?;
    let placed: Vec<(Region, u64)> =
        table.order.iter().map(|&index| (table.region(index), ram.address(0) + index * SIZE)).collect();
    vhost.set_regions(&placed)?;
    let tap = Tap::new()?;
    let mut queue = Queue::new(u16::try_from(config.queue).unwrap_or(u16::MAX))?;
    vhost.start(queue.place(), tap.fd())?;

    observer.ready(&expectation).map_err(WorkloadError::Announce)?;
    let start = Instant::now();
    let mut list = Descriptors::new(config, &table);
    for _ in 0..config.kicks {
        queue.offer(config.packets_per_kick(), &mut list);
        vhost.kick()?;
        while !queue.is_drained() {
            vhost.wait()?;
        }
    }
    let duration_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    observer.end().map_err(WorkloadError::Announce)?;

    Ok(Report {
        workload: "vhost",
        pid: std::process::id(),
        expectation,
        packets: descriptors / u64::from(config.chain),
        descriptors,
        crossing: list.crossing,
        searches: descriptors + list.crossing,
        received: tap.received(),
        duration_ns,
        tap: tap.name().to_owned(),
        seed: config.seed,
        regions: table.regions(),
    })
}
