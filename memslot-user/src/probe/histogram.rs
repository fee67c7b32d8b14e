//! The histograms that the probes keep: read now and then, and told as what came since the last time.

use super::{Probes, Resolver, counters};
use crate::model::{Bucket, CallKind, HistogramClock, Probe};
use aya::maps::{MapError, PerCpuArray};
use memslot_common::histogram::{Entry, Key, NO_LENGTH, WAYS, bounds};
use std::collections::BTreeMap;

/// Bytes that the map takes at most, over all CPUs; beyond 680 CPUs each still gets [`FEWEST`] elements.
const MOST_BYTES: usize = 64 << 20;
const MOST: usize = 4096;
const FEWEST: usize = 512;

/// Words of an element: key, count and sum of each entry.
const WORDS: usize = WAYS * Entry::SIZE / 8;

/// Elements of the map, a power of two, for so many CPUs: 32,768 buckets a CPU, fewer where that would be
/// more than 64 MiB in all.
pub(super) fn elements(cpus: usize) -> u32 {
    let fit = MOST_BYTES / (WAYS * Entry::SIZE * cpus.max(1));
    let power = if fit.is_power_of_two() { fit } else { fit.next_power_of_two() / 2 };
    u32::try_from(power.clamp(FEWEST, MOST)).unwrap_or(u32::MAX)
}

/// Number and sum of the values of a bucket, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filled {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: u64,
}

/// What was in the kernel's histograms when they were read last.
///
/// The kernel only ever adds, and nothing is set back there: what came since is the difference, so that no
/// value can be lost between reading and setting back.
#[derive(Debug, Default)]
pub struct Histograms {
    seen: BTreeMap<Key, Filled>,
}

impl Histograms {
    /// Reads the kernel's histograms; the buckets that grew, by how much.
    ///
    /// # Errors
    /// When the kernel does not let us read the map.
    pub fn read(&mut self, probes: &Probes) -> Result<Vec<(Key, Filled)>, MapError> {
        let mut now: BTreeMap<Key, Filled> = BTreeMap::new();
        let Some(map) = probes.ebpf().map("HISTOGRAM") else { return Ok(Vec::new()) };
        let map: PerCpuArray<_, [u64; WORDS]> = PerCpuArray::try_from(map)?;
        for element in 0..probes.histogram_elements {
            for entries in map.get(&element, 0)?.iter() {
                for entry in entries.chunks_exact(Entry::SIZE / 8) {
                    let [key, count, sum] = entry else { continue };
                    if *key != 0 {
                        let filled = now.entry(Key::unpack(*key)).or_default();
                        filled.count += count;
                        filled.sum += sum;
                    }
                }
            }
        }
        Ok(self.grown(now))
    }

    fn grown(&mut self, now: BTreeMap<Key, Filled>) -> Vec<(Key, Filled)> {
        let mut grown = Vec::new();
        for (key, filled) in &now {
            let before = self.seen.get(key).copied().unwrap_or_default();
            // A value that was being added while we read may be in the sum alone: the next time tells it.
            let count = filled.count.saturating_sub(before.count);
            if count > 0 {
                grown.push((*key, Filled { count, sum: filled.sum.wrapping_sub(before.sum) }));
            }
        }
        self.seen = now;
        grown
    }
}

/// What a bucket of the kernel's is in a recording; `None` where its key means nothing.
#[must_use]
pub fn bucket(
    key: Key,
    knows_on_cpu: bool,
    time: u64,
    count: u64,
    sum: u64,
    resolver: &mut Resolver,
) -> Option<Bucket> {
    let probe = Probe::ALL.into_iter().find(|&probe| counters::code(probe) == key.probe)?;
    let (vm, device) = resolver.of_subject(probe, key.subject);
    let (low, high) = bounds(key.bucket);
    let clock = *HistogramClock::ALL.get(key.clock as usize)?;
    Some(Bucket {
        time,
        probe,
        vm,
        device,
        kind: *CallKind::of_probe(probe).get(key.kind as usize)?,
        visited: (key.visited != NO_LENGTH).then_some(key.visited),
        clock: if knows_on_cpu { clock } else { HistogramClock::Wall },
        low,
        high,
        count,
        sum,
    })
}

#[cfg(test)]
mod tests {
    use super::{Filled, Histograms, MOST_BYTES, elements};
    use memslot_common::histogram::{Entry, Key, WAYS};
    use std::collections::BTreeMap;

    #[test]
    fn the_map_stays_within_its_bound() {
        for cpus in [1, 2, 3, 48, 128, 192, 512] {
            let elements = elements(cpus);
            assert!(elements.is_power_of_two());
            assert!(elements as usize * WAYS * Entry::SIZE * cpus <= MOST_BYTES, "{cpus}");
        }
        assert_eq!((elements(2), elements(4096)), (4096, 512));
    }

    #[test]
    fn an_interval_has_what_came_since_the_last_and_nothing_twice() {
        // Interval output that was not set back: github.com/iovisor/bcc/pull/4582
        let key = |bucket| Key { subject: 1, probe: 0, kind: 0, clock: 0, visited: 0, bucket };
        let of = |counts: &[(u32, u64)]| -> BTreeMap<_, _> {
            counts.iter().map(|&(bucket, count)| (key(bucket), Filled { count, sum: count * 10 })).collect()
        };
        let mut histograms = Histograms::default();
        let first = histograms.grown(of(&[(3, 5)]));
        assert_eq!(first, [(key(3), Filled { count: 5, sum: 50 })]);
        let second = histograms.grown(of(&[(3, 5), (4, 2)]));
        assert_eq!(second, [(key(4), Filled { count: 2, sum: 20 })]);
        assert_eq!(histograms.grown(of(&[(3, 5), (4, 2)])), []);
    }
}
