//! Asks for the layout of a VM or table that is older than the recording.

use super::{
    Probes,
    identity::{AskRegions, AskSlots, Event, Resolver},
    sys,
};
use aya::{maps::Array, programs::RawTracePoint};
use memslot_common::settings::snapshot::{CELLS, DONE, MORE, ORDER, STATUS};
use std::os::fd::AsFd;

/// A layout that changes faster than it can be read is given up after so many attempts.
const ATTEMPTS: u32 = 5;
/// Runs of a program for one attempt: 256 moves each; far more than 32,767 slots need.
const RUNS: u32 = 4096;
/// Address spaces of an x86 VM: ordinary and SMM.
const ADDRESS_SPACES: u16 = 2;

impl Probes {
    /// Has the kernel write the slots of an older VM to the ring.
    pub(super) fn ask_slots(&mut self, ask: AskSlots, resolver: &mut Resolver) -> Vec<Event> {
        let mut events = Vec::new();
        for as_id in 0..ADDRESS_SPACES {
            if let Some(count) = self.walk("snapshot_slots", &[ask.kvm, u64::from(as_id)])
                && count > 0
            {
                events.extend(resolver.expect_slots(ask.kvm, as_id, count).map(Event::Slots));
            }
        }
        events
    }

    /// Has the kernel write the regions of an older table to the ring.
    pub(super) fn ask_regions(&mut self, ask: AskRegions, resolver: &mut Resolver) -> Vec<Event> {
        let count = self.walk("snapshot_regions", &[ask.iotlb]).filter(|&count| count > 0);
        let regions = count.and_then(|count| resolver.expect_regions(ask.iotlb, count));
        regions.map(Event::Regions).into_iter().collect()
    }

    /// Runs a walk to its end; the number of records that it wrote, or `None` when the tree did not
    /// hold still or could not be read.
    fn walk(&mut self, program: &str, arguments: &[u64]) -> Option<usize> {
        (0..ATTEMPTS).find_map(|_| self.walk_once(program, arguments))
    }

    fn walk_once(&mut self, program: &str, arguments: &[u64]) -> Option<usize> {
        let program: &mut RawTracePoint = self.ebpf_mut().program_mut(program)?.try_into().ok()?;
        if program.fd().is_err() {
            program.load().ok()?;
        }
        let program = program.fd().ok()?.as_fd().try_clone_to_owned().ok()?;
        let mut cursor: Array<_, u64> = Array::try_from(self.ebpf_mut().map_mut("CURSOR")?).ok()?;
        for cell in 0..CELLS {
            cursor.set(cell, 0, 0).ok()?;
        }
        for _ in 0..RUNS {
            sys::run_program(program.as_fd(), arguments).ok()?;
            match cursor.get(&STATUS, 0).ok()? {
                MORE => {}
                DONE => return usize::try_from(cursor.get(&ORDER, 0).ok()?).ok(),
                _ => return None,
            }
        }
        None
    }
}
