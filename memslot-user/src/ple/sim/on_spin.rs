//! `kvm_vcpu_on_spin`: whom a spinning vCPU yields to.

use super::host::Host;

/// What the handler tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) looks: u32,
    pub(super) yields: u32,
    pub(super) boosted: u32,
    pub(super) declined: u32,
    pub(super) undercommit: u32,
}

/// Refusals after which `kvm_vcpu_on_spin` gives up.
const TRIES: u32 = 3;

/// Goes round the VM's vCPUs from the last boosted one on; returns whom to run, and what was tried.
pub(super) fn choose(host: &mut Host<'_>, me: usize) -> (Option<usize>, Tried) {
    let mut tried = Tried::default();
    let cpus = host.config.cpus as usize;
    let vm = me / cpus;
    let last = host.last_boosted[vm];
    // The two passes: behind the last boosted vCPU, then from the first up to it.
    for place in (last + 1..cpus).chain(0..=last.min(cpus - 1)) {
        let other = vm * cpus + place;
        tried.looks += 1;
        // `ready` is set while a vCPU is runnable without running.
        if other == me || host.is_running(other) {
            continue;
        }
        if !host.vcpus[other].in_kernel() {
            continue;
        }
        if !eligible(host, other) {
            continue;
        }
        tried.yields += 1;
        // `yield_to`: -ESRCH where both run queues hold one task.
        if host.queue_length(me) == 1 && host.queue_length(other) == 1 {
            tried.undercommit += 1;
            if tried.undercommit == TRIES {
                break;
            }
            continue;
        }
        tried.boosted += 1;
        host.last_boosted[vm] = place;
        return (Some(other), tried);
    }
    (None, tried)
}

/// `kvm_vcpu_eligible_for_directed_yield`: who is in the handler itself is passed over every other time.
fn eligible(host: &mut Host<'_>, other: usize) -> bool {
    let vcpu = &mut host.vcpus[other];
    let eligible = !vcpu.in_spin_loop || vcpu.dy_eligible;
    if vcpu.in_spin_loop {
        vcpu.dy_eligible = !vcpu.dy_eligible;
    }
    eligible
}
