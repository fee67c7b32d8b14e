//! A host whose truth is known: vCPUs that share CPUs, take locks and spin, under a PLE policy.
//!
//! A discrete-event simulation in TSC cycles. Each CPU runs its vCPUs in turn, a time slice each. A
//! vCPU computes, takes a ticket lock, holds it, lets go, and begins anew; while another holds the
//! lock it spins. A preempted holder, or a preempted next waiter, holds up all behind it: that is what
//! PLE exits and directed yields are there for. `on_spin` is `kvm_vcpu_on_spin` step by step. The same
//! seed gives the same run; nothing is measured on the machine that simulates.
//!
//! Not modelled: caches, NUMA, halted vCPUs and their wake-ups, load balancing between CPUs, CFS's
//! limits on a buddy's lead. So the order of the policies is what a run shows, not a host's figures.

mod guest;
mod host;
mod on_spin;

use super::policy::Policy;
use super::window::Unit;
use crate::model::PleExit;
use serde::Serialize;

/// What is simulated. Times are in TSC cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Config {
    /// CPUs of the host.
    pub cpus: u32,
    /// VMs, each with a vCPU a CPU: the load, 1 is undercommitted.
    pub load: u32,
    /// What the windows count.
    pub unit: Unit,
    /// Cycles of a PAUSE in a loop, where windows count PAUSEs.
    pub pause: u64,
    /// Cycles simulated.
    pub duration: u64,
    /// Mean of the work between two locks.
    pub compute: u64,
    /// Mean of the time that a lock is held.
    pub hold: u64,
    /// Locks of a VM.
    pub locks: u32,
    /// A vCPU's time slice, where it has to share its CPU.
    pub slice: u64,
    /// From one vCPU to another on a CPU.
    pub switch: u64,
    /// A PLE exit and the way back into the guest.
    pub exit: u64,
    /// A look at another vCPU in `kvm_vcpu_on_spin`.
    pub look: u64,
    /// A call of `yield_to`, which locks two run queues.
    pub yield_to: u64,
    /// Of all random numbers.
    pub seed: u64,
}

/// Cycles of a millisecond.
pub const MILLISECOND: u64 = 2_500_000;

impl Config {
    /// Eight CPUs of 2.5 GHz for 200 ms, VMs whose vCPUs all want one kernel lock.
    #[must_use]
    pub fn new(load: u32, unit: Unit) -> Self {
        Self {
            cpus: 8,
            load,
            unit,
            pause: 40,
            duration: 200 * MILLISECOND,
            compute: 30_000,
            hold: 5000,
            locks: 1,
            slice: 3 * MILLISECOND,
            switch: 3000,
            exit: 3000,
            look: 100,
            yield_to: 2000,
            seed: 1,
        }
    }

    /// Cycles that a window lasts.
    #[must_use]
    pub fn cycles(&self, window: u32) -> u64 {
        match self.unit {
            Unit::Cycles => u64::from(window),
            Unit::Pauses => u64::from(window).saturating_mul(self.pause),
        }
    }

    /// Checks that there is something to simulate.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let vcpus = u64::from(self.cpus) * u64::from(self.load);
        if !(1..=4096).contains(&vcpus) {
            return Err(format!(
                "{} CPUs at a load of {} are {vcpus} vCPUs; the simulator takes 1 to 4096",
                self.cpus, self.load
            ));
        }
        if self.locks == 0 || self.hold == 0 || self.compute == 0 || self.slice == 0 {
            return Err(
                "locks, their hold, the work between and the slice must all be more than 0".to_owned()
            );
        }
        Ok(())
    }
}

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Outcome {
    /// Rounds of work and lock that were finished: the throughput.
    pub work: u64,
    /// PLE exits.
    pub exits: u64,
    /// Cycles in the handler, time scheduled out not counted.
    pub handler: u64,
    /// Cycles spun in whole windows before an exit.
    pub spun_before_exit: u64,
    /// Cycles spun in all.
    pub spun: u64,
    /// Cycles of all CPUs: the duration times their number.
    pub capacity: u64,
    /// Calls of `yield_to`.
    pub yields: u64,
    /// Of them boosted.
    pub boosted: u64,
    /// Of them refused because both run queues held one task.
    pub undercommit: u64,
    /// Waits for a lock that met a PLE exit.
    pub waits_with_exit: u64,
    /// All waits for a lock.
    pub waits: u64,
}

/// Runs a policy. `record` is told of every PLE exit, in the order of their ends.
pub fn run(config: &Config, policy: Policy, record: &mut dyn FnMut(PleExit)) -> Outcome {
    host::Host::new(*config, policy, record).run()
}
