//! The host: CPUs, their run queues, and the events of the simulation.

use super::guest::{Doing, Lock, Vcpu};
use super::on_spin;
use super::{Config, Outcome};
use crate::model::{PleExit, VmId};
use crate::ple::policy::Policy;
use std::collections::VecDeque;

/// A CPU and the vCPUs that share it. The first runs.
#[derive(Debug)]
struct Cpu {
    queue: VecDeque<usize>,
    /// Up to when the vCPU's state is right.
    now: u64,
    slice_end: u64,
}

/// The state of a run. vCPU n is number n % cpus of VM n / cpus, and stays on the CPU of that number.
pub(super) struct Host<'a> {
    pub(super) config: Config,
    pub(super) vcpus: Vec<Vcpu>,
    /// `kvm.last_boosted_vcpu`, by VM.
    pub(super) last_boosted: Vec<usize>,
    policy: Policy,
    cpus: Vec<Cpu>,
    locks: Vec<Lock>,
    outcome: Outcome,
    record: &'a mut dyn FnMut(PleExit),
}

impl<'a> Host<'a> {
    pub(super) fn new(config: Config, policy: Policy, record: &'a mut dyn FnMut(PleExit)) -> Self {
        let (cpus, vms) = (config.cpus as usize, config.load as usize);
        let mut vcpus: Vec<Vcpu> = (0..cpus * vms)
            .zip(config.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)..)
            .map(|(_, seed)| Vcpu::new(seed, policy.start()))
            .collect();
        for vcpu in &mut vcpus {
            let work = vcpu.around(config.compute);
            vcpu.doing = Doing::Compute(work);
        }
        // The VMs' turns on the CPUs are shifted against each other, as nothing gangs them.
        let cpu = |cpu: usize| Cpu {
            queue: (0..vms).map(|turn| (turn + cpu) % vms * cpus + cpu).collect(),
            now: 0,
            slice_end: config.slice * (1 + cpu as u64) / cpus as u64,
        };
        Self {
            config,
            vcpus,
            last_boosted: vec![0; vms],
            policy,
            cpus: (0..cpus).map(cpu).collect(),
            locks: (0..vms * config.locks as usize).map(|_| Lock::default()).collect(),
            outcome: Outcome { capacity: config.duration * cpus as u64, ..Outcome::default() },
            record,
        }
    }

    pub(super) fn is_running(&self, vcpu: usize) -> bool {
        self.cpus[self.cpu_of(vcpu)].queue.front() == Some(&vcpu)
    }

    pub(super) fn queue_length(&self, vcpu: usize) -> usize {
        self.cpus[self.cpu_of(vcpu)].queue.len()
    }

    fn cpu_of(&self, vcpu: usize) -> usize {
        vcpu % self.cpus.len()
    }

    fn lock(&mut self, vcpu: usize) -> &mut Lock {
        let vm = vcpu / self.cpus.len();
        let place = vm * self.config.locks as usize + self.vcpus[vcpu].lock;
        &mut self.locks[place]
    }

    pub(super) fn run(mut self) -> Outcome {
        loop {
            let next = (0..self.cpus.len()).map(|cpu| (self.next_event(cpu), cpu)).min();
            let Some((time, cpu)) = next.filter(|(time, _)| *time < self.config.duration) else { break };
            self.event(cpu, time);
        }
        self.outcome
    }

    /// When something happens on a CPU next.
    fn next_event(&self, cpu: usize) -> u64 {
        let state = &self.cpus[cpu];
        let Some(&vcpu) = state.queue.front() else { return u64::MAX };
        let left = match self.vcpus[vcpu].doing {
            Doing::Compute(left) | Doing::Hold(left) | Doing::Handler(left) => left,
            Doing::Spin { left, .. } => left,
        };
        let done = state.now.saturating_add(left);
        // A handler is not cut in two: its end is soon, and preemption waits for it.
        let alone = state.queue.len() == 1 || matches!(self.vcpus[vcpu].doing, Doing::Handler(_));
        if alone { done } else { done.min(state.slice_end.max(state.now)) }
    }

    /// Brings what a CPU's vCPU does up to a time.
    fn advance(&mut self, cpu: usize, time: u64) {
        let state = &mut self.cpus[cpu];
        let passed = time.saturating_sub(state.now);
        state.now = state.now.max(time);
        let Some(&vcpu) = state.queue.front() else { return };
        match &mut self.vcpus[vcpu].doing {
            Doing::Compute(left) | Doing::Hold(left) => *left = left.saturating_sub(passed),
            Doing::Handler(left) => {
                *left = left.saturating_sub(passed);
                self.outcome.handler += passed;
            }
            Doing::Spin { left, spun } => {
                *left = left.saturating_sub(passed);
                *spun += passed;
                self.outcome.spun += passed;
            }
        }
    }

    fn event(&mut self, cpu: usize, time: u64) {
        self.advance(cpu, time);
        let Some(&vcpu) = self.cpus[cpu].queue.front() else { return };
        match self.vcpus[vcpu].doing {
            Doing::Compute(0) => self.acquire(vcpu),
            Doing::Hold(0) => self.release(vcpu, time),
            Doing::Spin { left: 0, spun } => self.exit(vcpu, time, spun),
            Doing::Handler(0) => self.handled(vcpu, time),
            _ => self.preempt(cpu),
        }
    }

    fn acquire(&mut self, vcpu: usize) {
        let locks = self.config.locks as usize;
        self.vcpus[vcpu].choose_lock(locks);
        if self.lock(vcpu).draw(vcpu) {
            self.hold(vcpu);
        } else {
            self.outcome.waits += 1;
            self.vcpus[vcpu].exited = false;
            self.spin(vcpu);
        }
    }

    fn hold(&mut self, vcpu: usize) {
        let mean = self.config.hold;
        let hold = self.vcpus[vcpu].around(mean);
        self.vcpus[vcpu].doing = Doing::Hold(hold);
    }

    /// Begins a window anew, as every entry into the guest does.
    fn spin(&mut self, vcpu: usize) {
        let left = self.vcpus[vcpu].window.map_or(u64::MAX, |window| self.config.cycles(window));
        self.vcpus[vcpu].doing = Doing::Spin { left, spun: 0 };
    }

    fn release(&mut self, vcpu: usize, time: u64) {
        self.outcome.work += 1;
        let next = self.lock(vcpu).release();
        let mean = self.config.compute;
        let work = self.vcpus[vcpu].around(mean);
        self.vcpus[vcpu].doing = Doing::Compute(work);
        // The next one sees it at once if it runs and spins, otherwise once it does.
        let Some(next) = next.filter(|next| self.is_running(*next)) else { return };
        let cpu = self.cpu_of(next);
        self.advance(cpu, time);
        if matches!(self.vcpus[next].doing, Doing::Spin { .. }) {
            self.hold(next);
        }
    }

    /// The window is over: into the handler.
    fn exit(&mut self, vcpu: usize, time: u64, spun: u64) {
        self.outcome.exits += 1;
        self.outcome.spun_before_exit += spun;
        self.outcome.waits_with_exit += u64::from(!self.vcpus[vcpu].exited);
        let window = self.vcpus[vcpu].window.unwrap_or(0);
        self.vcpus[vcpu].exited = true;
        self.vcpus[vcpu].entered = (time, window);
        self.vcpus[vcpu].window = Some(self.policy.exited(window));
        self.vcpus[vcpu].in_spin_loop = true;
        let (target, tried) = on_spin::choose(self, vcpu);
        self.vcpus[vcpu].tried = tried;
        self.outcome.yields += u64::from(tried.yields);
        self.outcome.boosted += u64::from(tried.boosted);
        self.outcome.undercommit += u64::from(tried.undercommit);
        let cost = self.config.exit
            + self.config.look * u64::from(tried.looks)
            + self.config.yield_to * u64::from(tried.yields);
        self.vcpus[vcpu].doing = Doing::Handler(cost);
        if let Some(target) = target {
            self.boost(vcpu, target, time);
        }
    }

    /// A boosted vCPU runs next on its CPU, and the yielding one gives up its own.
    fn boost(&mut self, me: usize, target: usize, time: u64) {
        let (mine, other) = (self.cpu_of(me), self.cpu_of(target));
        if other != mine {
            self.advance(other, time);
        }
        self.leave(other);
        let queue = &mut self.cpus[other].queue;
        if other == mine {
            // The yielding one goes to the end.
            queue.rotate_left(1);
        }
        queue.retain(|vcpu| *vcpu != target);
        queue.push_front(target);
        self.enter(other);
        if other != mine && self.cpus[mine].queue.len() > 1 {
            self.leave(mine);
            self.cpus[mine].queue.rotate_left(1);
            self.enter(mine);
        }
    }

    fn preempt(&mut self, cpu: usize) {
        self.leave(cpu);
        self.cpus[cpu].queue.rotate_left(1);
        self.enter(cpu);
    }

    /// The running vCPU is about to be scheduled out: what it spun of its window is forgotten.
    fn leave(&mut self, cpu: usize) {
        let Some(&vcpu) = self.cpus[cpu].queue.front() else { return };
        if matches!(self.vcpus[vcpu].doing, Doing::Spin { .. }) {
            self.spin(vcpu);
        }
    }

    /// The first of the queue is scheduled in.
    fn enter(&mut self, cpu: usize) {
        let Some(&vcpu) = self.cpus[cpu].queue.front() else { return };
        let state = &mut self.cpus[cpu];
        state.now += self.config.switch;
        state.slice_end = state.now + self.config.slice;
        let window = self.vcpus[vcpu].window.map(|window| self.policy.scheduled_in(window));
        self.vcpus[vcpu].window = window;
        if matches!(self.vcpus[vcpu].doing, Doing::Spin { .. }) {
            if self.lock(vcpu).serves(vcpu) { self.hold(vcpu) } else { self.spin(vcpu) }
        }
    }

    /// The handler is over: back into the guest, where the lock may have come in the meantime.
    fn handled(&mut self, vcpu: usize, time: u64) {
        let state = &mut self.vcpus[vcpu];
        state.in_spin_loop = false;
        state.dy_eligible = false;
        let (number, cpus) = (u32::try_from(vcpu).unwrap_or(u32::MAX), self.config.cpus);
        let tried = state.tried;
        (self.record)(PleExit {
            time: state.entered.0,
            latency: time - state.entered.0,
            on_cpu: None,
            on_spin: None,
            cpu: number % cpus,
            vm: VmId(number / cpus),
            vcpu: number % cpus,
            window: (state.entered.1, state.window.unwrap_or(0)),
            yields: tried.yields,
            boosted: tried.boosted,
            declined: tried.declined,
            undercommit: tried.undercommit,
        });
        if self.lock(vcpu).serves(vcpu) { self.hold(vcpu) } else { self.spin(vcpu) }
    }
}
