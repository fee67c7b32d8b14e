//! Asks for the layout of a VM or table that is older than the recording.

use super::{
    Probes,
    identity::{AskRegions, AskSlots, Event, Resolver},
    sys,
};
use aya::{
    Ebpf,
    maps::Array,
    programs::{ProgramError, RawTracePoint},
};
use memslot_common::settings::{
    Cursor,
    snapshot::{DONE, MORE},
};
use std::os::fd::AsFd;

/// A layout that changes faster than it can be read is given up after so many attempts.
const ATTEMPTS: u32 = 5;
/// Runs of a program for one attempt, of 64 moves each: more than twice what 32,767 slots need.
const RUNS: u32 = 4096;

impl Probes {
    /// Has the kernel write the slots of an older VM to the ring; `None` when they did not hold still.
    pub(super) fn ask_slots(&mut self, ask: AskSlots, resolver: &mut Resolver) -> Option<Vec<Event>> {
        let mut events = Vec::new();
        for as_id in 0..self.address_spaces {
            let count = self.walk("snapshot_slots", &[ask.kvm, u64::from(as_id)])?;
            events.extend(resolver.expect_slots(ask.kvm, as_id, count).map(Event::Slots));
        }
        Some(events)
    }

    /// Has the kernel write the regions of an older table to the ring; `None` likewise.
    pub(super) fn ask_regions(&mut self, ask: AskRegions, resolver: &mut Resolver) -> Option<Vec<Event>> {
        let count = self.walk("snapshot_regions", &[ask.iotlb])?;
        Some(resolver.expect_regions(ask.iotlb, count).map(Event::Regions).into_iter().collect())
    }

    /// Runs a walk to its end; the number of records that it wrote, or `None` when the tree did not
    /// hold still or could not be read.
    fn walk(&mut self, program: &str, arguments: &[u64]) -> Option<usize> {
        (0..ATTEMPTS).find_map(|_| self.walk_once(program, arguments))
    }

    fn walk_once(&mut self, program: &str, arguments: &[u64]) -> Option<usize> {
        let program: &mut RawTracePoint = self.ebpf_mut().program_mut(program)?.try_into().ok()?;
        let program = program.fd().ok()?.as_fd().try_clone_to_owned().ok()?;
        let mut cursor: Array<_, [u8; Cursor::SIZE]> =
            Array::try_from(self.ebpf_mut().map_mut("CURSOR")?).ok()?;
        cursor.set(0, Cursor::ZERO.to_bytes(), 0).ok()?;
        for _ in 0..RUNS {
            sys::run_program(program.as_fd(), arguments).ok()?;
            let state = Cursor::from_bytes(&cursor.get(&0, 0).ok()?)?;
            match state.status {
                MORE => {}
                DONE => return usize::try_from(state.order).ok(),
                _ => return None,
            }
        }
        None
    }
}

/// Loads the programs that walk layouts, so that the verifier's time is spent before the recording.
pub(super) fn load(ebpf: &mut Ebpf) -> Result<(), ProgramError> {
    for name in ["snapshot_slots", "snapshot_regions"] {
        if let Some(program) = ebpf.program_mut(name) {
            let program: &mut RawTracePoint = program.try_into()?;
            program.load()?;
        }
    }
    Ok(())
}
