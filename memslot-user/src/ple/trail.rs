//! The recorded windows held against the kernel's rules.
//!
//! An exit shows the window at entry and at return. In between the handler grows it, and every time
//! the vCPU is scheduled in, inside the handler after a yield or between two exits, it is shrunk. So a
//! step that is neither is one that the rules cannot explain.

use super::window::Parameters;
use crate::model::{PleExit, VmId};
use serde::Serialize;
use std::collections::BTreeMap;

/// Shrinks in a row after which a window does not change any more, or is not the kernel's: a divisor
/// of 2 takes 32 bits to the base in as many.
const MOST_SHRINKS: u32 = 64;

/// How the windows of a recording went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trail {
    /// Exits compared.
    pub exits: u64,
    /// Exits whose window at return is the grown one.
    pub grown: u64,
    /// Exits whose window at return is the grown one, shrunk: the vCPU was scheduled out inside.
    pub shrunk_inside: u64,
    /// Exits whose window at return the rules do not explain.
    pub differ: u64,
    /// Steps from an exit to the vCPU's next one.
    pub steps: u64,
    /// Of them with the window shrunk: the vCPU was scheduled out in between.
    pub shrunk_between: u64,
    /// Of them that the rules do not explain.
    pub steps_differ: u64,
}

impl Trail {
    /// The rules explain every window.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.differ == 0 && self.steps_differ == 0
    }
}

/// How often a window must be shrunk to become another; `None`: it never does.
pub(super) fn shrinks(parameters: &Parameters, mut from: u32, to: u32) -> Option<u32> {
    for count in 0..MOST_SHRINKS {
        if from == to {
            return Some(count);
        }
        let shrunk = parameters.shrunk(from);
        if shrunk == from {
            return None;
        }
        from = shrunk;
    }
    None
}

/// Follows the windows, one vCPU at a time.
#[derive(Debug)]
pub(super) struct Follower {
    parameters: Parameters,
    trail: Trail,
    last: BTreeMap<(VmId, u32), u32>,
}

impl Follower {
    pub(super) fn new(parameters: Parameters) -> Self {
        Self { parameters, trail: Trail::default(), last: BTreeMap::new() }
    }

    /// Takes the next exit; a vCPU's exits must come in the order of their time.
    pub(super) fn add(&mut self, exit: &PleExit) {
        let (before, after) = exit.window;
        self.trail.exits += 1;
        match shrinks(&self.parameters, self.parameters.grown(before), after) {
            Some(0) => self.trail.grown += 1,
            Some(_) => self.trail.shrunk_inside += 1,
            None => self.trail.differ += 1,
        }
        if let Some(last) = self.last.insert((exit.vm, exit.vcpu), after) {
            self.trail.steps += 1;
            match shrinks(&self.parameters, last, before) {
                Some(0) => {}
                Some(_) => self.trail.shrunk_between += 1,
                None => self.trail.steps_differ += 1,
            }
        }
    }

    pub(super) fn trail(self) -> Trail {
        self.trail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ple::window::Unit;

    fn exit(window: (u32, u32)) -> PleExit {
        PleExit {
            time: 0,
            latency: 1,
            on_cpu: None,
            on_spin: None,
            cpu: 0,
            vm: VmId(0),
            vcpu: 0,
            window,
            yields: 0,
            boosted: 0,
            declined: 0,
            undercommit: 0,
        }
    }

    fn follow(windows: &[(u32, u32)], parameters: Parameters) -> Trail {
        let mut follower = Follower::new(parameters);
        windows.iter().for_each(|window| follower.add(&exit(*window)));
        follower.trail()
    }

    #[test]
    fn growth_and_shrinks_are_told_apart_from_what_is_neither() {
        let defaults = Parameters::defaults(Unit::Pauses);
        let trail = follow(&[(3000, 6000), (6000, 12_000), (3000, 3000), (3000, 6000)], defaults);
        let expected =
            Trail { exits: 4, grown: 3, shrunk_inside: 1, steps: 3, shrunk_between: 1, ..Trail::default() };
        assert_eq!(trail, expected);
        assert!(trail.exact());
        let trail = follow(&[(3000, 6001), (6000, 12_000), (13_000, 26_000)], defaults);
        // 6001 to 6000 is no step to the base either.
        assert_eq!((trail.differ, trail.steps_differ), (1, 2));
        assert!(!trail.exact());
    }

    #[test]
    fn several_shrinks_in_a_row_are_counted() {
        let halving = Parameters { shrink: 2, ..Parameters::defaults(Unit::Cycles) };
        assert_eq!(shrinks(&halving, 65_536, 65_536), Some(0));
        assert_eq!(shrinks(&halving, 65_536, 16_384), Some(2));
        assert_eq!(shrinks(&halving, 65_536, 4096), Some(4));
        assert_eq!(shrinks(&halving, 65_536, 5000), None);
        assert_eq!(shrinks(&halving, 4096, 8192), None);
    }
}
