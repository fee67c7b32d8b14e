//! Slots that change while vCPUs of the same VM look them up, and VMs that come and go meanwhile.
//!
//! Nothing is counted beforehand: this is for who replaces the search, and compares answers.

use super::super::machine::{Machine, SlotSetting, Vcpu, write_page_tables};
use super::super::memory::Mapping;
use super::super::program::walk_list;
use super::super::random::Random;
use super::super::{Stressed, WorkloadError};
use crate::model::{Gfn, PAGE_SIZE};
use kvm_bindings::kvm_regs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// vCPUs of the VM that stays.
const VCPUS: u32 = 2;
/// Slots that stay, and slots that change, alternating by address.
const STAYING: u32 = 12;
const CHANGING: u32 = 12;
const PAGES: u64 = 16;
/// Frames from one slot to the next; the second half of them is where a slot moves to.
const STRIDE: u64 = 4 * PAGES;
const BASE: u64 = 8 << 18;
/// Code, two page tables, and a list for each vCPU.
const OWN: u64 = 8;
/// Addresses of a list of one page.
const LIST: u64 = 512;

/// A VM whose changing slots are there or not, at one place or the other.
struct Guest {
    machine: Machine,
    ram: Arc<Mapping>,
}

fn bytes(pages: u64) -> usize {
    usize::try_from(pages * PAGE_SIZE).unwrap_or(usize::MAX)
}

fn place(slot: u32) -> u64 {
    BASE + u64::from(slot) * STRIDE
}

impl Guest {
    fn new() -> Result<Self, WorkloadError> {
        let ram = Arc::new(Mapping::new(bytes(OWN + u64::from(STAYING + CHANGING) * PAGES))?);
        let machine = Machine::new(Arc::clone(&ram))?;
        let own = SlotSetting { id: 0, base_gfn: Gfn(0), npages: OWN, offset: 0, log_dirty: false };
        machine.set_slot(own)?;
        ram.populate(0..bytes(OWN));
        ram.copy(0, &walk_list(false));
        write_page_tables(&ram, bytes(1), Gfn(1).gpa());
        let guest = Self { machine, ram };
        for slot in 0..STAYING + CHANGING {
            guest.set(slot, PAGES, false)?;
        }
        Ok(guest)
    }

    /// Sets a slot at its place or the one beside it; 0 pages delete it.
    fn set(&self, slot: u32, npages: u64, moved: bool) -> Result<(), WorkloadError> {
        self.machine.set_slot(SlotSetting {
            id: slot + 1,
            base_gfn: Gfn(place(slot) + if moved { 2 * PAGES } else { 0 }),
            npages,
            offset: self.offset(slot),
            log_dirty: false,
        })
    }

    fn offset(&self, slot: u32) -> usize {
        bytes(OWN + u64::from(slot) * PAGES)
    }

    fn vcpu(&self, id: u32) -> Result<Walker, WorkloadError> {
        let list = 3 + u64::from(id);
        Ok(Walker {
            vcpu: self.machine.vcpu(id, Gfn(1).gpa())?,
            ram: Arc::clone(&self.ram),
            list: bytes(list),
            registers: kvm_regs { rip: 0, rsi: Gfn(list).gpa().0, rcx: LIST, ..kvm_regs::default() },
        })
    }
}

struct Walker {
    vcpu: Vcpu,
    ram: Arc<Mapping>,
    list: usize,
    registers: kvm_regs,
}

impl Walker {
    /// Touches frames of slots, whether they are there or not, and of gaps.
    fn run(&mut self, random: &mut Random) -> Result<(), WorkloadError> {
        for entry in 0..LIST {
            let slot = u32::try_from(random.below(u64::from(STAYING + CHANGING))).unwrap_or(0);
            let gfn = Gfn(place(slot) + random.below(STRIDE));
            let at = self.list + usize::try_from(entry * 8).unwrap_or(0);
            self.ram.u64(at).store(gfn.gpa().0, Ordering::Relaxed);
        }
        self.vcpu.run(&self.registers).map(drop)
    }
}

/// Runs for that long.
///
/// # Errors
/// A host without usable KVM.
pub fn stress(time: Duration) -> Result<Stressed, WorkloadError> {
    let guest = Guest::new()?;
    let walkers: Result<Vec<Walker>, _> = (0..VCPUS).map(|id| guest.vcpu(id)).collect();
    let (stop, runs, ended) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let going_on = || !stop.load(Ordering::Relaxed);
    let mut changes = 0;
    std::thread::scope(|scope| -> Result<(), WorkloadError> {
        let mut threads = Vec::new();
        for (mut walker, seed) in walkers?.into_iter().zip(1..) {
            let (going_on, runs) = (&going_on, &runs);
            threads.push(scope.spawn(move || {
                let mut random = Random::new(seed, &[0x57e5]);
                while going_on() {
                    walker.run(&mut random)?;
                    runs.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }));
        }
        // VMs whose sets of slots go while the module may have an index of them.
        threads.push(scope.spawn(|| {
            let mut random = Random::new(3, &[0x57e5]);
            while going_on() {
                Guest::new()?.vcpu(0)?.run(&mut random)?;
                ended.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        }));
        let result = change(&guest, time, &mut changes);
        stop.store(true, Ordering::Relaxed);
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => Err(WorkloadError::host("a thread ended early", "this is a defect; report it")),
        });
        result.and(ended.collect())
    })?;
    Ok(Stressed { changes, runs: runs.into_inner(), ended: ended.into_inner() })
}

/// Deletes, creates and moves slots, and takes pages away, so that those that stay are looked up again too.
fn change(guest: &Guest, time: Duration, changes: &mut u64) -> Result<(), WorkloadError> {
    let mut random = Random::new(4, &[0x57e5]);
    // Where each changing slot is: its place, the one beside it, or nowhere.
    let mut at = [Some(false); CHANGING as usize];
    let start = Instant::now();
    while start.elapsed() < time {
        let which = random.index(at.len());
        // Those that change stand between those that stay.
        let slot = 2 * u32::try_from(which).unwrap_or(0) + 1;
        at[which] = match (at[which], random.chance(50)) {
            (Some(moved), true) => {
                guest.set(slot, 0, moved)?;
                None
            }
            (Some(moved), false) => {
                guest.set(slot, PAGES, !moved)?;
                Some(!moved)
            }
            (None, moved) => {
                guest.set(slot, PAGES, moved)?;
                Some(moved)
            }
        };
        *changes += 1;
        if changes.is_multiple_of(8) {
            guest.ram.discard(bytes(OWN)..guest.offset(STAYING + CHANGING))?;
        }
    }
    Ok(())
}
