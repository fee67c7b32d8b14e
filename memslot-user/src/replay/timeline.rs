//! A layout as it changes: what was in force after each change, forwards and a little back.
//!
//! A recording is read in chunks, and per-CPU clocks and late records let a chunk begin before the end
//! of the last one. So the timeline keeps the state at which it last had to begin again: going back costs
//! the changes since then. Going back beyond it begins at the origin, which is slow and right.

use super::unjoined::Unjoined;
use std::rc::Rc;

/// A layout that changes make.
pub(super) trait Layout: Clone {
    /// One change, or a row of a snapshot.
    type Change;
    /// What else rules a change.
    type Limits: Copy;

    /// Makes a change.
    fn apply(&mut self, change: &Self::Change, limits: Self::Limits) -> Result<(), Unjoined>;
    /// The layout of a snapshot's rows, in pre-order.
    fn of_snapshot(rows: &[Self::Change]) -> Result<Self, Unjoined>;
}

/// Changes that take force together: one, or a whole snapshot.
#[derive(Debug)]
pub(super) enum Step<C> {
    Change(C),
    Snapshot(Vec<C>),
}

/// The layout after so many steps, or why it is not known.
#[derive(Clone, Debug)]
struct Place<L> {
    step: usize,
    state: Result<Rc<L>, Unjoined>,
}

/// A layout as it changes.
#[derive(Debug)]
pub(super) struct Timeline<L: Layout> {
    /// Ascending by generation or time.
    steps: Vec<(u64, Step<L::Change>)>,
    limits: L::Limits,
    origin: Place<L>,
    /// Where it last began again.
    behind: Place<L>,
    now: Place<L>,
}

impl<L: Layout> Timeline<L> {
    /// Begins with `state`, to which the steps from number `first` on are made.
    pub(super) fn new(
        steps: Vec<(u64, Step<L::Change>)>,
        first: usize,
        state: Result<L, Unjoined>,
        limits: L::Limits,
    ) -> Self {
        let origin = Place { step: first, state: state.map(Rc::new) };
        Self { steps, limits, behind: origin.clone(), now: origin.clone(), origin }
    }

    /// How many steps are in force at a generation or time: events with the same number share a layout.
    pub(super) fn step_at(&self, at: u64) -> usize {
        self.steps.partition_point(|step| step.0 <= at)
    }

    /// The layout after so many steps.
    pub(super) fn at(&mut self, step: usize) -> Result<Rc<L>, Unjoined> {
        let back = step < self.now.step;
        if back {
            let from = if step < self.behind.step { &self.origin } else { &self.behind };
            self.now = from.clone();
        }
        while self.now.step < step.min(self.steps.len()) {
            match (&self.steps[self.now.step].1, &mut self.now.state) {
                (Step::Snapshot(rows), state) => *state = L::of_snapshot(rows).map(Rc::new),
                (Step::Change(change), Ok(layout)) => {
                    if let Err(reason) = Rc::make_mut(layout).apply(change, self.limits) {
                        self.now.state = Err(reason);
                    }
                }
                (Step::Change(_), Err(_)) => {}
            }
            self.now.step += 1;
        }
        if back {
            self.behind = self.now.clone();
        }
        self.now.state.clone()
    }
}
