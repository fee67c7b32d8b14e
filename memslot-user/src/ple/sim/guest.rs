//! The guests: what a vCPU is doing, and the ticket locks of a VM.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;

/// What a vCPU is at when it runs; times are cycles left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// Work outside locks, in user mode.
    Compute(u64),
    /// Waits for its ticket; cycles left to the PLE exit, and spun of the window so far.
    Spin { left: u64, spun: u64 },
    /// Holds the lock.
    Hold(u64),
    /// In the handler of a PLE exit.
    Handler(u64),
}

/// A vCPU.
#[derive(Debug)]
pub(super) struct Vcpu {
    pub(super) doing: Doing,
    /// The lock that it holds or waits for.
    pub(super) lock: usize,
    /// Its PLE window; `None`, it has no exits.
    pub(super) window: Option<u32>,
    /// `kvm_vcpu.spin_loop.in_spin_loop`: it is in `kvm_vcpu_on_spin`, running or yielded.
    pub(super) in_spin_loop: bool,
    /// `kvm_vcpu.spin_loop.dy_eligible`
    pub(super) dy_eligible: bool,
    /// This wait had a PLE exit.
    pub(super) exited: bool,
    /// Time at which it entered the handler, the window then, and what the handler counts.
    pub(super) entered: (u64, u32),
    pub(super) tried: super::on_spin::Tried,
    rng: SmallRng,
}

impl Vcpu {
    pub(super) fn new(seed: u64, window: Option<u32>) -> Self {
        Self {
            doing: Doing::Compute(0),
            lock: 0,
            window,
            in_spin_loop: false,
            dy_eligible: false,
            exited: false,
            entered: (0, 0),
            tried: super::on_spin::Tried::default(),
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    /// Cycles around a mean, from half of it to one and a half.
    pub(super) fn around(&mut self, mean: u64) -> u64 {
        self.rng.random_range(mean / 2..=mean.saturating_add(mean / 2)).max(1)
    }

    pub(super) fn choose_lock(&mut self, locks: usize) {
        self.lock = self.rng.random_range(0..locks);
    }

    /// Preempted where it is, would `kvm_arch_vcpu_preempted_in_kernel` say so?
    pub(super) fn in_kernel(&self) -> bool {
        !matches!(self.doing, Doing::Compute(_))
    }
}

/// A ticket lock: it goes to those who wait in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// Who has its ticket served, running or not, and then all who wait.
    pub(super) queue: VecDeque<usize>,
}

impl Lock {
    /// Draws a ticket; true if it is served at once.
    pub(super) fn draw(&mut self, vcpu: usize) -> bool {
        self.queue.push_back(vcpu);
        self.queue.len() == 1
    }

    pub(super) fn serves(&self, vcpu: usize) -> bool {
        self.queue.front() == Some(&vcpu)
    }

    /// The holder lets go; returns who is next.
    pub(super) fn release(&mut self) -> Option<usize> {
        self.queue.pop_front();
        self.queue.front().copied()
    }
}
