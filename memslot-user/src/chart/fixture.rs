//! Digests for the tests of charts.

use crate::digest::{Digest, Group};
use crate::model::Probe;
use crate::recording::Meta;
use crate::replay::{EngineOutcome, Interval, Lengths, ProbeReplay, Quantiles};

/// A recording of faults with given latencies by kind.
pub(crate) fn faults(label: &str, groups: &[(Group, &[u64])]) -> Digest {
    let mut digest = Digest::new(label.into(), Meta { complete: true, ..Meta::default() });
    for (group, values) in groups {
        for value in *values {
            digest.faults.latency.add(*value);
            digest.faults.by_group.entry(*group).or_default().add(*value);
        }
    }
    digest
}

fn lengths(counts: &[(u32, u64)]) -> Lengths {
    Lengths(counts.iter().copied().collect())
}

/// A recording whose page faults were replayed: observed lengths, and each engine's.
pub(crate) fn replayed(label: &str, observed: &[(u32, u64)], engines: &[(&str, &[(u32, u64)])]) -> Digest {
    let mut digest = Digest::new(label.into(), Meta { complete: true, ..Meta::default() });
    let observed = lengths(observed);
    let engines = engines.iter().map(|(name, counts)| {
        let visited = lengths(counts);
        EngineOutcome {
            engine: (*name).into(),
            probe: Probe::PageFault,
            lookups: visited.total(),
            mismatches: 0,
            visited_mean: visited.mean(),
            visited,
            ns_per_lookup: Interval { value: 10.0, low: 9.0, high: 11.0 },
            predicted: None,
        }
    });
    digest.replays.push(ProbeReplay {
        probe: Probe::PageFault,
        lookups: observed.total(),
        left_out: Default::default(),
        observed,
        latency_ns: Quantiles { p50: 100.0, p90: 200.0, p99: 300.0 },
        fit: None,
        no_fit: None,
        engines: engines.collect(),
        check: Default::default(),
    });
    digest
}

/// Recordings like those of the lab: magnitudes and shapes of real ones, from a seed.
pub(crate) mod lifelike {
    use super::*;
    use crate::model::{Class, DeviceId, Fault, Gpa, PleExit, SearchLength, TableId, Translation, VmId};
    use crate::recording::{Account, AttachKind, Attached, Host, ProbeMeta};
    use crate::replay::{Fit, Prediction};
    use rand::{Rng, SeedableRng, rngs::SmallRng};

    fn meta(probe: Probe, function: &str, entries: u64) -> Meta {
        let attached = vec![Attached { function: function.into(), kind: AttachKind::Fentry }];
        let account = Account {
            entries,
            begun: entries,
            returns: entries,
            finished: entries,
            emitted: entries,
            ..Account::default()
        };
        Meta {
            complete: true,
            host: Host {
                name: "lab".into(),
                kernel: "6.12.48+deb12-cloud-amd64".into(),
                virtualised: Some("QEMU TCG".into()),
                cpu_vendor: "AuthenticAMD".into(),
                ..Host::default()
            },
            probes: [(probe, ProbeMeta { attached, account, ..ProbeMeta::default() })].into(),
            ..Meta::default()
        }
    }

    /// Depth of a random node of a balanced tree of `n`, from 1.
    fn depth(rng: &mut SmallRng, n: u32) -> u32 {
        rng.random_range(1..=n).ilog2() + 1
    }

    fn replay(probe: Probe, n: u32, observed: &Lengths, base: f64, rng: &mut SmallRng) -> ProbeReplay {
        let lookups = observed.total();
        let interval =
            |value: f64, part: f64| Interval { value, low: value * (1.0 - part), high: value * (1.0 + part) };
        let (intercept, slope) = (interval(base, 0.01), interval(46.0, 0.12));
        let engine = |name: &str, length: &mut dyn FnMut(&mut SmallRng) -> u32, rng: &mut SmallRng| {
            let mut visited = Lengths::default();
            (0..lookups).for_each(|_| visited.add(length(rng)));
            let mean = visited.mean();
            let p50 = base + 46.0 * mean;
            EngineOutcome {
                engine: name.into(),
                probe,
                lookups,
                mismatches: 0,
                visited_mean: mean,
                visited,
                ns_per_lookup: interval(4.0 + 1.1 * mean, 0.04),
                predicted: (n > 3).then_some(Prediction {
                    latency_ns: Quantiles { p50, p90: p50 * 1.7, p99: p50 * 3.0 },
                    median_ns: Interval {
                        value: p50,
                        low: p50 - 5.5 * mean - 40.0,
                        high: p50 + 5.5 * mean + 40.0,
                    },
                    extrapolates: mean > 12.0,
                }),
            }
        };
        let engines = vec![
            engine("linear", &mut |rng| rng.random_range(1..=n), rng),
            engine("linear_by_size", &mut |rng| rng.random_range(1..=n).min(rng.random_range(1..=n)), rng),
            engine("sorted_array", &mut |_| n.ilog2() + 1, rng),
            engine("wbtree", &mut |rng| depth(rng, n) + u32::from(rng.random_bool(0.3)), rng),
        ];
        let fit = Fit { intercept, slope, r_squared: 0.93, events: lookups, range: (1, n.ilog2() + 1) };
        let p50 = base + 46.0 * observed.mean();
        ProbeReplay {
            probe,
            lookups,
            left_out: Default::default(),
            observed: observed.clone(),
            latency_ns: Quantiles { p50, p90: p50 * 1.6, p99: p50 * 3.0 },
            fit: (n > 3).then_some(fit),
            no_fit: (n <= 3).then(|| "searches of 2 lengths only; a line needs 3".into()),
            engines,
            check: Default::default(),
        }
    }

    pub(crate) fn slots(label: &str, n: u32, events: u32, seed: u64) -> Digest {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let mut digest =
            Digest::new(label.into(), meta(Probe::PageFault, "kvm_mmu_page_fault", events.into()));
        for event in 0..events {
            let (class, visited, base) = match rng.random_range(0..100) {
                0..10 => (Class::Ram, 0, 2900),
                10..75 => (Class::Ram, depth(rng, n), 3000),
                75..80 => (Class::NoSlot, n.ilog2() + 1, 5200),
                _ => (Class::MmioCached, 0, 9800),
            };
            let tail = if rng.random_bool(0.02) { rng.random_range(4000..60_000) } else { 0 };
            let noise: u64 = (0..4).map(|_| rng.random_range(0..400_u64)).sum();
            digest.add_fault(&Fault {
                time: u64::from(event) * 10_000,
                latency: base + 46 * u64::from(visited) + noise + tail,
                on_cpu: None,
                cpu: 0,
                vm: VmId(0),
                vcpu: 0,
                gpa: Gpa(0),
                error_code: 0,
                class,
                as_id: 0,
                slot: None,
                last_used: None,
                ret: 1,
                length: Some(SearchLength { visited, touched: visited + 1 }),
                generation: 2,
                ambiguous: false,
            });
        }
        digest.slots = Some(n.into());
        let observed = digest.faults.visited.clone();
        digest.replays.push(replay(Probe::PageFault, n, &observed, 3800.0, rng));
        digest
    }

    pub(crate) fn regions(label: &str, n: u32, events: u32, seed: u64) -> Digest {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let mut digest = Digest::new(label.into(), meta(Probe::Translate, "translate_desc", events.into()));
        for event in 0..events {
            let visited = depth(rng, n);
            digest.add_translation(&Translation {
                time: u64::from(event) * 1000,
                latency: 780 + 14 * u64::from(visited) + rng.random_range(0..40),
                on_cpu: None,
                cpu: 0,
                device: DeviceId(0),
                table: TableId(0),
                worker: 7,
                queue: Some(1),
                addr: 0,
                len: 64,
                access: 1,
                ret: 1,
                regions: n,
                length: Some(SearchLength { visited, touched: visited + 2 }),
                is_iotlb: false,
            });
        }
        let observed = digest.translations.visited.clone();
        digest.replays.push(replay(Probe::Translate, n, &observed, 790.0, rng));
        digest
    }

    pub(crate) fn ple(label: &str, vcpus: u32, over: bool, seed: u64) -> Digest {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let events: u32 = if over { 3003 } else { 510 };
        let mut digest = Digest::new(label.into(), meta(Probe::Ple, "pause_interception", events.into()));
        let mut windows = vec![3000_u32; vcpus as usize];
        for event in 0..events {
            let vcpu = rng.random_range(0..vcpus);
            let window = &mut windows[vcpu as usize];
            if rng.random_bool(if over { 0.15 } else { 0.02 }) {
                *window = 3000;
            }
            let before = *window;
            *window = (*window * 2).min(65_535);
            let boosted = u32::from(over && rng.random_bool(0.7));
            digest.add_ple_exit(&PleExit {
                time: 1_000_000 + u64::from(event) * 100_000,
                latency: if boosted > 0 { 3800 } else { 1400 } + rng.random_range(0..900),
                on_cpu: None,
                on_spin: Some(700),
                cpu: 0,
                vm: VmId(0),
                vcpu,
                window: (before, *window),
                yields: 1,
                boosted,
                declined: u32::from(over) - boosted,
                undercommit: u32::from(!over),
            });
        }
        digest
    }
}
