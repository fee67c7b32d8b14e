//! Tables that are exchanged while vhost translates through them, and devices that come and go meanwhile.
//!
//! Nothing is counted beforehand: this is for who replaces the search, and compares answers.

use super::super::memory::Mapping;
use super::super::{Order, Stressed, WorkloadError};
use super::Config;
use super::device::VhostNet;
use super::queue::Queue;
use super::table::{Descriptors, SIZE, Table};
use super::tap::Tap;
use crate::model::Region;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Regions that descriptors point into; a table has up to as many again above them.
const REGIONS: u32 = 100;

/// Runs for that long.
///
/// # Errors
/// A host without usable vhost-net or tap.
pub fn stress(time: Duration) -> Result<Stressed, WorkloadError> {
    let config = Config { regions: REGIONS, order: Order::Shuffled, kicks: u64::MAX, ..Config::default() };
    let table = Table::new(&config);
    let length = u64::from(REGIONS) * SIZE;
    let ram = Mapping::new(usize::try_from(length).unwrap_or(usize::MAX))?;
    let vhost = VhostNet::open()?;
    let tables: Vec<Vec<(Region, u64)>> = (0..8).map(|number| regions(&table, &ram, number)).collect();
    vhost.set_regions(&tables[0])?;
    let tap = Tap::new()?;
    let mut queue = Queue::new(u16::try_from(config.queue).unwrap_or(u16::MAX))?;
    vhost.start(queue.place(), tap.fd())?;
    let (stop, changes, ended) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let going_on = || !stop.load(Ordering::Relaxed);
    let mut runs = 0;
    std::thread::scope(|scope| -> Result<(), WorkloadError> {
        // Each frees the table before, which the worker has just searched or is about to search.
        let changer = scope.spawn(|| {
            for table in tables.iter().cycle().take_while(|_| going_on()) {
                vhost.set_regions(table)?;
                changes.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let comer = scope.spawn(|| {
            while going_on() {
                VhostNet::open()?.set_regions(&tables[1])?;
                ended.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let mut list = Descriptors::new(&config, &table);
        let start = Instant::now();
        let mut send = || {
            while start.elapsed() < time {
                queue.offer(config.packets_per_kick(), &mut list);
                vhost.kick()?;
                while !queue.is_drained() {
                    vhost.wait()?;
                }
                runs += 1;
            }
            Ok(())
        };
        let result = send();
        stop.store(true, Ordering::Relaxed);
        let lost = || Err(WorkloadError::host("a thread ended early", "this is a defect; report it"));
        result.and(changer.join().unwrap_or_else(|_| lost())).and(comer.join().unwrap_or_else(|_| lost()))
    })?;
    Ok(Stressed { changes: changes.into_inner(), runs, ended: ended.into_inner() })
}

/// The same regions in another order, with others above them.
fn regions(table: &Table, ram: &Mapping, number: u32) -> Vec<(Region, u64)> {
    let count = table.order.len();
    let turn = number as usize * 13 % count;
    let mut order = table.order.clone();
    order.rotate_left(turn);
    let mut regions: Vec<(Region, u64)> =
        order.iter().map(|&index| (table.region(index), ram.address(0) + index * SIZE)).collect();
    let above = (0..u64::from(number) * 12).map(|extra| (table.region(count as u64 + extra), ram.address(0)));
    regions.extend(above);
    regions
}
