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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
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

/// Follows the windows, one vCPU at a time, and moves windows of its own by the kernel's rules.
#[derive(Clone, Debug)]
pub struct Follower {
    parameters: Parameters,
    trail: Trail,
    /// The window that was recorded last, and the one that the rules give.
    last: BTreeMap<(VmId, u32), (u32, u32)>,
}

impl Follower {
    /// Knows the parameters, and nothing of the windows.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters, trail: Trail::default(), last: BTreeMap::new() }
    }

    /// Takes the next exit; a vCPU's exits must come in the order of their time. Returns the windows before and
    /// after it that the rules give: from where the recording found the vCPU, grown by every exit, and shrunk as
    /// often as the vCPU must have been scheduled in. Where no number of shrinks gives the recorded window, they go
    /// on without, and differ from it.
    pub fn add(&mut self, exit: &PleExit) -> (u32, u32) {
        let (before, after) = exit.window;
        self.trail.exits += 1;
        let last = self.last.get(&(exit.vm, exit.vcpu)).copied();
        let mut replayed = before;
        if let Some((recorded, last)) = last {
            self.trail.steps += 1;
            match shrinks(&self.parameters, recorded, before) {
                Some(0) => {}
                Some(_) => self.trail.shrunk_between += 1,
                None => self.trail.steps_differ += 1,
            }
            replayed = self.shrunk_to(last, before);
        }
        match shrinks(&self.parameters, self.parameters.grown(before), after) {
            Some(0) => self.trail.grown += 1,
            Some(_) => self.trail.shrunk_inside += 1,
            None => self.trail.differ += 1,
        }
        let grown = self.shrunk_to(self.parameters.grown(replayed), after);
        self.last.insert((exit.vm, exit.vcpu), (after, grown));
        (replayed, grown)
    }

    /// A window shrunk to another, or as it is if that is not to be reached.
    fn shrunk_to(&self, window: u32, to: u32) -> u32 {
        if shrinks(&self.parameters, window, to).is_some() { to } else { window }
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
        for window in windows {
            follower.add(&exit(*window));
        }
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
    fn the_rules_windows_part_from_recorded_ones_that_they_do_not_give() {
        let mut follower = Follower::new(Parameters::defaults(Unit::Pauses));
        let mut add = |window| follower.add(&exit(window));
        // Found at 6000, grown; scheduled in; then a window that is none of the rules'.
        assert_eq!(add((6000, 12_000)), (6000, 12_000));
        assert_eq!(add((3000, 6000)), (3000, 6000));
        assert_eq!(add((7000, 14_000)), (6000, 12_000));
        assert_eq!(add((3000, 6000)), (3000, 6000));
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
