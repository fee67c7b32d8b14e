//! Policies replayed over the spins that a recording shows, exit by exit, in bounded memory.
//!
//! An exit at a window of w tells that its vCPU had spun for w; exits that follow each other as fast
//! as their windows allow belong to one spin. A policy cuts the same spins anew. Two things a
//! recording cannot tell: how long a vCPU went on after its last exit (less than a window, which gives
//! the bounds `exits` and `exits_most`), and spins too short for an exit. A wait lasts as long as it
//! did, handlers included, so fewer exits leave more time to spin; that a holder would have been boosted sooner or later is for the simulator to show.

use super::policy::Policy;
use super::table::{AgainstBase, percent};
use super::trail::shrinks;
use super::window::Parameters;
use crate::model::{PleExit, VmId};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a policy would have made of the recorded spins.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Replayed {
    /// The policy, as it is written.
    pub policy: String,
    /// Exits, if every spin ended with its last recorded exit.
    pub exits: u64,
    /// Exits, if every spin went on for almost a window more.
    pub exits_most: u64,
    /// ns in the handler, without time scheduled out.
    pub handler_ns: u64,
    /// Spun in whole windows before an exit, in the windows' unit.
    pub spun: u64,
    /// Exits that boosted another vCPU, as the recorded ones at the same place did.
    pub boosted: u64,
    /// It has windows smaller than one that was in force while recorded, so spins that are not in the recording
    /// would have had exits too: its figures are the least that is possible. Never of the policy that was recorded.
    pub at_least: bool,
    /// Against the first policy.
    pub against_base: AgainstBase,
}

impl Replayed {
    #[expect(clippy::cast_precision_loss, reason = "counts and times far below 2^53")]
    fn against(self, base: &Self) -> Self {
        let percent = |value: u64, base: u64| percent(value as f64, base as f64);
        let against_base = AgainstBase {
            exits: percent(self.exits, base.exits),
            handler: percent(self.handler_ns, base.handler_ns),
            spun_before_exit: percent(self.spun, base.spun),
            boosted: percent(self.boosted, base.boosted),
        };
        Self { against_base, ..self }
    }
}

/// A policy at a vCPU.
#[derive(Clone, Copy, Debug)]
struct State {
    window: u32,
    /// Spun of the window so far.
    used: u64,
    /// Units that its last exit's handler still takes.
    owed: u64,
}

/// What a recorded exit passes on to a policy's exits in its place.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    cost: u64,
    /// The same in the window's unit, where the vCPU stayed on its CPU: its wait went on meanwhile.
    handler: u64,
    boosted: bool,
}

#[derive(Debug)]
struct Running {
    policy: Policy,
    figures: Replayed,
    smallest: u32,
}

impl Running {
    fn new(policy: Policy) -> Self {
        let figures = Replayed {
            policy: policy.to_string(),
            exits: 0,
            exits_most: 0,
            handler_ns: 0,
            spun: 0,
            boosted: 0,
            at_least: false,
            against_base: AgainstBase::default(),
        };
        let smallest = policy.start().unwrap_or(u32::MAX);
        Self { policy, figures, smallest }
    }

    /// Exits while a vCPU goes on waiting for so many units, each exit taking `handler` of them.
    fn cut(policy: &Policy, state: &mut State, mut units: u64, handler: u64) -> (u64, u64) {
        let (mut exits, mut spun) = (0, 0);
        loop {
            let paid = state.owed.min(units);
            state.owed -= paid;
            units -= paid;
            let window = u64::from(state.window).max(1);
            let left = window.saturating_sub(state.used);
            if state.owed > 0 || units < left {
                state.used += units;
                return (exits, spun);
            }
            units -= left;
            (exits, spun, state.used, state.owed) = (exits + 1, spun + window, 0, handler);
            let next = policy.exited(state.window);
            if next == state.window {
                let turn = window.saturating_add(handler);
                let whole = units / turn;
                (exits, spun, units) = (exits + whole, spun + whole * window, units % turn);
            }
            state.window = next;
        }
    }

    fn spin(&mut self, state: &mut Option<State>, units: u32, recorded: Recorded) {
        let Some(state) = state else { return };
        let (exits, spun) =
            Self::cut(&self.policy, state, u64::from(units) + recorded.handler, recorded.handler);
        self.figures.exits += exits;
        self.figures.exits_most += exits;
        self.figures.spun += spun;
        self.figures.handler_ns = self.figures.handler_ns.saturating_add(exits.saturating_mul(recorded.cost));
        self.figures.boosted += exits * u64::from(recorded.boosted);
    }

    /// The spin is over: at most almost a window of the recording's more. What was spun counts no more.
    fn end(&mut self, state: &mut Option<State>, window: u32) {
        let Some(state) = state else { return };
        let (more, _) = Self::cut(&self.policy, &mut state.clone(), u64::from(window.saturating_sub(1)), 0);
        self.figures.exits_most += more;
        (state.used, state.owed) = (0, 0);
    }

    fn shrink(&self, state: &mut Option<State>, times: u32) {
        let Some(state) = state else { return };
        for _ in 0..times {
            *state = State { window: self.policy.scheduled_in(state.window), used: 0, owed: 0 };
        }
    }
}

/// A vCPU as it was recorded.
#[derive(Debug)]
struct Vcpu {
    end: u64,
    window: u32,
    /// It had an exit before: a spin that can end.
    has_exited: bool,
    /// ns of its last exit that stayed on the CPU.
    cost: Option<u64>,
    states: Vec<Option<State>>,
}

/// Takes exits and replays all policies.
#[derive(Debug)]
pub(super) struct Replay {
    kernel: Parameters,
    ns_per_unit: f64,
    policies: Vec<Running>,
    vcpus: BTreeMap<(VmId, u32), Vcpu>,
    /// The largest window that was recorded.
    largest: u32,
    spins: u64,
}

/// Slack that a spin's next exit has beyond its window, ns: the way into the guest and out again.
const SLACK: f64 = 5000.0;

impl Replay {
    pub(super) fn new(kernel: Parameters, ns_per_unit: f64, policies: &[Policy]) -> Self {
        Self {
            kernel,
            ns_per_unit,
            policies: policies.iter().copied().map(Running::new).collect(),
            vcpus: BTreeMap::new(),
            largest: 0,
            spins: 0,
        }
    }

    /// Does an exit so long after the last one go on with its spin?
    #[expect(clippy::cast_precision_loss, reason = "times between exits are far below 2^53 ns")]
    fn goes_on(&self, gap: u64, window: u32) -> bool {
        gap as f64 <= 1.5 * f64::from(window) * self.ns_per_unit + SLACK
    }

    /// The next exit; a vCPU's exits come in the order of their time.
    pub(super) fn add(&mut self, exit: &PleExit) {
        let (before, after) = exit.window;
        self.largest = self.largest.max(before).max(after);
        let kernel = self.kernel;
        let entry = (exit.vm, exit.vcpu);
        let goes_on = self
            .vcpus
            .get(&entry)
            .is_some_and(|vcpu| self.goes_on(exit.time.saturating_sub(vcpu.end), before));
        self.spins += u64::from(!goes_on);
        let start = |running: &Running| {
            // The kernel's own policy goes on where the recording found it.
            let window =
                if running.policy == Policy::Dynamic(kernel) { before } else { running.policy.start()? };
            Some(State { window, used: 0, owed: 0 })
        };
        let policies = &self.policies;
        let vcpu = self.vcpus.entry(entry).or_insert_with(|| Vcpu {
            end: exit.time,
            window: before,
            has_exited: false,
            cost: None,
            states: policies.iter().map(start).collect(),
        });
        let between = shrinks(&kernel, vcpu.window, before).unwrap_or(1);
        let inside = shrinks(&kernel, kernel.grown(before), after).unwrap_or(1);
        // Boosting another mostly takes the vCPU off its CPU, for longer than any handler runs.
        let stayed = inside == 0 && exit.boosted == 0;
        if stayed {
            vcpu.cost = Some(exit.latency);
        }
        let cost = vcpu.cost.map_or(exit.latency, |cost| cost.min(exit.latency));
        let handler = if stayed { units(cost, self.ns_per_unit) } else { 0 };
        let recorded = Recorded { cost, handler, boosted: exit.boosted > 0 };
        for (running, state) in self.policies.iter_mut().zip(&mut vcpu.states) {
            if !goes_on && vcpu.has_exited {
                running.end(state, vcpu.window);
            }
            running.shrink(state, between);
            running.spin(state, before, recorded);
            running.shrink(state, inside);
        }
        vcpu.has_exited = true;
        (vcpu.end, vcpu.window) = (exit.time.saturating_add(exit.latency), after);
    }

    /// The figures by policy, and how many spins there were.
    pub(super) fn finish(mut self) -> (Vec<Replayed>, u64) {
        for vcpu in self.vcpus.values_mut() {
            for (running, state) in self.policies.iter_mut().zip(&mut vcpu.states) {
                running.end(state, vcpu.window);
            }
        }
        let figures: Vec<Replayed> = self
            .policies
            .into_iter()
            .map(|running| {
                let recorded = running.policy == Policy::Dynamic(self.kernel);
                Replayed { at_least: !recorded && running.smallest < self.largest, ..running.figures }
            })
            .collect();
        let Some(base) = figures.first().cloned() else { return (figures, self.spins) };
        (figures.into_iter().map(|figures| figures.against(&base)).collect(), self.spins)
    }
}

/// A time in the windows' unit.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a handler's time is not negative and far below 2^53 ns"
)]
fn units(ns: u64, ns_per_unit: f64) -> u64 {
    (ns as f64 / ns_per_unit).min(1e15) as u64
}
