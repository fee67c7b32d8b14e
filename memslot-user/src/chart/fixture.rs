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
            classes: Vec::new(),
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

pub(crate) mod lifelike;
