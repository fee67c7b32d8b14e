//! Runs from a seed, with what makes real ones hard to compare: boots that differ, events that are like those
//! before them, and a heavy tail.

use super::run::{Builder, Pooled, Run};
use crate::model::{Class, Fault, Gpa, Memslot, Probe, SearchLength, SlotChange, SlotChangeKind, VmId};
use crate::recording::{Account, AttachKind, Attached, Clock, Host, Meta, ProbeMeta};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// How a side's runs are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    /// Faults of a run.
    pub(crate) faults: u64,
    /// Factor on every latency.
    pub(crate) factor: f64,
    /// Standard deviation of a boot's own factor.
    pub(crate) between: f64,
    /// Slots.
    pub(crate) slots: i32,
    /// The vCPU's last-used slot is never trusted.
    pub(crate) no_hits: bool,
    /// Instructions are counted: nothing is left to chance but what the seed of the workload says.
    pub(crate) exact: bool,
}

impl Default for World {
    fn default() -> Self {
        Self { faults: 1500, factor: 1.0, between: 0.02, slots: 53, no_hits: false, exact: false }
    }
}

/// A standard normal value, by Box and Muller.
pub(crate) fn normal(rng: &mut SmallRng) -> f64 {
    let (one, other) = (1.0 - rng.random::<f64>(), rng.random::<f64>());
    (-2.0 * one.ln()).sqrt() * (2.0 * std::f64::consts::PI * other).cos()
}

pub(crate) fn meta(world: World, boot: u64, faults: u64) -> Meta {
    let attached = vec![Attached { function: "kvm_mmu_page_fault".into(), kind: AttachKind::Fentry }];
    let account = Account { entries: faults, returns: faults, emitted: faults, ..Account::default() };
    Meta {
        schema: 1,
        tool: "0.1.0".into(),
        complete: true,
        host: Host {
            name: "host".into(),
            kernel: "6.12.0".into(),
            cpu_model: "a CPU".into(),
            cpus: 8,
            virtualised: world.exact.then(|| "QEMU-TCG-icount".into()),
            ..Host::default()
        },
        start: Clock { monotonic: 5_000_000_000, realtime: (boot + 1) * 1_000_000_000_000 },
        probes: [(Probe::PageFault, ProbeMeta { attached, account, ..ProbeMeta::default() })].into(),
        ..Meta::default()
    }
}

/// A run. In a world without chance the seed is that of the workload alone.
pub(crate) fn run(world: World, seed: u64, pooled: &mut Pooled) -> Run {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut builder = Builder::new(meta(world, seed, world.faults));
    for id in 0..world.slots {
        builder.add_slot_change(&SlotChange {
            time: 0,
            vm: VmId(0),
            as_id: 0,
            generation: 2,
            kind: SlotChangeKind::Create,
            slot: Memslot { id, base_gfn: crate::model::Gfn(u64::from(id.unsigned_abs()) * 16), npages: 16 },
            flags: 0,
            hva: 0,
        });
    }
    let boot = if world.exact { 1.0 } else { (world.between * normal(&mut rng)).exp() };
    let mut workload = SmallRng::seed_from_u64(7);
    let (mut slow, mut time) = (0.0, 1_000_000_u64);
    for _ in 0..world.faults {
        let hit = workload.random_bool(0.3);
        let searched = !hit || world.no_hits;
        let visited = if searched { workload.random_range(1..=6_u32) } else { 0 };
        // Neighbours are alike: an autoregressive process with a memory of about ten events.
        slow = 0.9 * slow + 0.05 * normal(&mut rng);
        let tail = if rng.random_bool(0.02) { 0.3 * rng.random::<f64>().max(1e-4).powf(-0.7) } else { 0.0 };
        let chance =
            if world.exact { 1.0 } else { boot * (slow + 0.05 * normal(&mut rng)).exp() * (1.0 + tail) };
        let base = 2000.0 + 90.0 * f64::from(visited);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive time")]
        let latency = (base * world.factor * chance) as u64;
        builder.add_fault(&Fault {
            time,
            latency,
            on_cpu: None,
            cpu: 0,
            vm: VmId(0),
            vcpu: 0,
            gpa: Gpa(0x1000),
            error_code: 0,
            class: Class::Ram,
            as_id: 0,
            slot: Some(0),
            last_used: None,
            ret: 1,
            length: Some(SearchLength { visited, touched: visited + 1 }),
            generation: 2,
            ambiguous: false,
        });
        time += latency + 10_000;
    }
    builder.finish(format!("run-{seed}"), false, pooled)
}

/// Runs with the seeds from `first` on.
pub(crate) fn side(world: World, first: u64, count: u64) -> Vec<Run> {
    (first..first + count).map(|seed| run(world, seed, &mut Pooled::default())).collect()
}

/// Sides of which the later is slower by a tenth, with so many runs at each number of slots.
pub(crate) fn slower(slots: &[i32], runs: u64) -> ((Vec<Run>, Pooled), (Vec<Run>, Pooled)) {
    let side = |factor, first: u64| {
        let mut pooled = Pooled::default();
        let mut all = Vec::new();
        for slots in slots {
            let world = World { slots: *slots, factor, ..World::default() };
            all.extend((first..first + runs).map(|seed| run(world, seed, &mut pooled)));
        }
        (all, pooled)
    };
    (side(1.0, 1), side(1.1, 100))
}
