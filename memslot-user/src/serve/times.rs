//! Latencies and search lengths as they add up, small enough to be kept by VM and kind of call.

use super::family::Histogram;
use super::native;
use std::collections::BTreeMap;

/// Bounds of classic buckets of time: powers of two from 256 ns to 1.07 s. The kernel's buckets end where an octave
/// does, so each count is exact.
const FIRST_OCTAVE: u32 = 8;
const LAST_OCTAVE: u32 = 30;

/// Bounds of classic buckets of search lengths; 0 is the last-used slot.
const LENGTHS: [u32; 16] = [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 128, 256];

/// Times of calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    count: u64,
    /// ns
    sum: u64,
    /// Values below each bound, not cumulative; the last is for those above all.
    octaves: [u64; (LAST_OCTAVE - FIRST_OCTAVE) as usize + 2],
    native: BTreeMap<i32, u64>,
}

impl Times {
    /// Adds `count` values between `low` and `high`, both inclusive, ns.
    pub(super) fn add(&mut self, low: u64, high: u64, count: u64, sum: u64) {
        self.count += count;
        self.sum += sum;
        // A value of n ns means n to n + 1: below 2^k ns is what has no bit from k on.
        let octave = u64::BITS - high.leading_zeros();
        let place = octave.clamp(FIRST_OCTAVE, LAST_OCTAVE + 1) - FIRST_OCTAVE;
        self.octaves[place as usize] += count;
        #[expect(clippy::cast_precision_loss, reason = "the middle of a bucket is no exact value anyway")]
        let middle = (low as f64 + high as f64 + 1.0) / 2.0 * 1e-9;
        *self.native.entry(native::index(middle)).or_default() += count;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.octaves.iter_mut().zip(other.octaves).for_each(|(sum, more)| *sum += more);
        for (index, count) in &other.native {
            *self.native.entry(*index).or_default() += count;
        }
    }

    /// In seconds.
    pub(super) fn histogram(&self) -> Histogram {
        let bounds = (FIRST_OCTAVE..=LAST_OCTAVE).map(|octave| f64::from(octave).exp2() * 1e-9);
        #[expect(clippy::cast_precision_loss, reason = "as Prometheus keeps it")]
        let sum = self.sum as f64 * 1e-9;
        Histogram {
            count: self.count,
            sum,
            classic: cumulative(bounds, &self.octaves),
            native: native::coarsened(0, &self.native),
        }
    }
}

/// Nodes visited by searches.
#[derive(Clone, Debug, Default)]
pub(super) struct Lengths(BTreeMap<u32, u64>);

impl Lengths {
    pub(super) fn add(&mut self, visited: u32, count: u64) {
        *self.0.entry(visited).or_default() += count;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (visited, count) in &other.0 {
            self.add(*visited, *count);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn histogram(&self) -> Histogram {
        let mut counts = [0; LENGTHS.len() + 1];
        let mut buckets = BTreeMap::new();
        for (&visited, &count) in &self.0 {
            counts[LENGTHS.partition_point(|bound| *bound < visited)] += count;
            if visited > 0 {
                *buckets.entry(native::index(f64::from(visited))).or_default() += count;
            }
        }
        let sum: u64 = self.0.iter().map(|(visited, count)| u64::from(*visited) * count).sum();
        #[expect(clippy::cast_precision_loss, reason = "as Prometheus keeps it")]
        let sum = sum as f64;
        Histogram {
            count: self.0.values().sum(),
            sum,
            classic: cumulative(LENGTHS.into_iter().map(f64::from), &counts),
            native: native::coarsened(self.0.get(&0).copied().unwrap_or(0), &buckets),
        }
    }
}

/// Bounds with what lies at or below them; `counts` has one more, for what lies above all.
fn cumulative(bounds: impl Iterator<Item = f64>, counts: &[u64]) -> Vec<(f64, u64)> {
    let mut below = 0;
    let bounds = bounds.chain([f64::INFINITY]);
    bounds
        .zip(counts)
        .map(|(bound, count)| {
            below += count;
            (bound, below)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use memslot_common::histogram::{bounds, bucket_of};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn classic_counts_are_exact(values in prop::collection::vec(0u64..1 << 40, 1..200)) {
            let mut times = Times::default();
            for &value in &values {
                let (low, high) = bounds(bucket_of(value));
                times.add(low, high, 1, value);
            }
            let histogram = times.histogram();
            for (bound, count) in &histogram.classic {
                #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
                let below = values.iter().filter(|value| (**value as f64) < bound * 1e9 - 0.25).count();
                prop_assert_eq!(*count, below as u64, "up to {}", bound);
            }
            prop_assert_eq!(histogram.count, values.len() as u64);
        }
    }

    #[test]
    fn a_length_of_zero_is_told_apart() {
        let mut lengths = Lengths::default();
        lengths.add(0, 10);
        lengths.add(1, 5);
        lengths.add(7, 2);
        lengths.add(510, 1);
        let histogram = lengths.histogram();
        assert_eq!(histogram.classic[..2], [(0.0, 10), (1.0, 15)]);
        assert_eq!(histogram.classic.last(), Some(&(f64::INFINITY, 18)));
        assert_eq!((histogram.native.zeros, histogram.native.buckets[0]), (10, (0, 5)));
        assert_eq!((histogram.count, histogram.sum), (18, 529.0));
    }
}
