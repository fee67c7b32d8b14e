//! A stream of nanosecond values, kept so that its quantiles are exact.

use std::collections::BTreeMap;

/// Values below this (65.5 µs, where nearly all calls end) are kept exactly.
const EXACT: u64 = 1 << 16;
/// Significant bits that are kept of a larger value.
const KEPT_BITS: u32 = 16;
/// Values after which the small ones move to an array, which is faster and no larger than they were.
const DENSE_FROM: u64 = 1 << 14;

/// How often each value occurred.
///
/// Values under 65,536 are exact; larger ones lose what is beyond 16 significant bits (less than
/// 0.0031 %), which bounds the memory whatever the number of events. Count, sum, smallest and largest
/// value are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// All values until there are [`DENSE_FROM`] of them, then those from [`EXACT`] on.
    sparse: BTreeMap<u64, u64>,
    /// Counts by value below [`EXACT`]; empty while there are few.
    dense: Vec<u64>,
    count: u64,
    sum: u128,
    range: Option<(u64, u64)>,
}

impl Sample {
    /// Takes one value.
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Takes `times` equal values.
    pub fn add_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.range = Some(match self.range {
            Some((low, high)) => (low.min(value), high.max(value)),
            None => (value, value),
        });
        match usize::try_from(value).ok().and_then(|index| self.dense.get_mut(index)) {
            Some(count) => *count += times,
            None => *self.sparse.entry(kept(value)).or_default() += times,
        }
        if self.dense.is_empty() && self.count >= DENSE_FROM {
            self.densify();
        }
    }

    /// Takes all values of another.
    pub fn merge(&mut self, other: &Self) {
        let exact = (self.sum + other.sum, self.range, other.range);
        for (value, times) in other.iter() {
            self.add_many(value, times);
        }
        self.sum = exact.0;
        self.range = match (exact.1, exact.2) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }

    fn densify(&mut self) {
        let large = self.sparse.split_off(&EXACT);
        let small = std::mem::replace(&mut self.sparse, large);
        self.dense = vec![0; 1 << EXACT.trailing_zeros()];
        for (value, times) in small {
            if let Some(count) = usize::try_from(value).ok().and_then(|index| self.dense.get_mut(index)) {
                *count += times;
            }
        }
    }

    /// How many values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        self.range.map(|(low, _)| low)
    }

    /// The largest value.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        self.range.map(|(_, high)| high)
    }

    /// The mean.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean has no more than 53 significant bits anyway")]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Each value with the number of its occurrences, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let dense =
            (0..).zip(&self.dense).filter(|(_, times)| **times > 0).map(|(value, times)| (value, *times));
        dense.chain(self.sparse.iter().map(|(value, times)| (*value, *times)))
    }

    /// Quantiles, in per mille (500 is the median): of n ascending values the place (n - 1)·q/1000,
    /// by linear interpolation between the two nearest (Hyndman and Fan's type 7, as everywhere
    /// here). `None` of no values.
    #[must_use]
    pub fn quantiles<const N: usize>(&self, per_mille: [u32; N]) -> Option<[f64; N]> {
        let (low, high) = self.range?;
        let most = u128::from(self.count - 1);
        Some(per_mille.map(|q| {
            let place = most * u128::from(q.min(1000));
            let (below, share) = (place / 1000, place % 1000);
            let (mut seen, mut value, mut next) = (0, high, high);
            for (found, times) in self.iter() {
                let before = seen;
                seen += u128::from(times);
                if before <= below && below < seen {
                    value = found.clamp(low, high);
                }
                if below + 1 < seen {
                    next = found.clamp(low, high);
                    break;
                }
            }
            between(value, next, share)
        }))
    }
}

/// The value that many thousandths of the way from one to the next.
#[expect(clippy::cast_precision_loss, reason = "a quantile has no more than 53 significant bits anyway")]
fn between(value: u64, next: u64, thousandths: u128) -> f64 {
    value as f64 + next.abs_diff(value) as f64 * (thousandths as f64 / 1000.0)
}

/// `value` with no more than [`KEPT_BITS`] significant bits.
fn kept(value: u64) -> u64 {
    let spare = (u64::BITS - value.leading_zeros()).saturating_sub(KEPT_BITS);
    value >> spare << spare
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Sample {
        let mut sample = Sample::default();
        values.into_iter().for_each(|value| sample.add(value));
        sample
    }

    #[test]
    fn quantiles_lie_between_the_nearest_values() {
        assert_eq!(of(1..=10).quantiles([0, 500, 900, 1000]), Some([1.0, 5.5, 9.1, 10.0]));
        assert_eq!(of(1..=1001).quantiles([500, 900, 990, 1]), Some([501.0, 901.0, 991.0, 2.0]));
        assert_eq!(of([3, 3, 3, 9]).quantiles([500, 750]), Some([3.0, 4.5]));
        assert_eq!(of([7]).quantiles([0, 500, 1000]), Some([7.0; 3]));
        assert_eq!(of([]).quantiles([500]), None);
    }

    #[test]
    fn the_extremes_of_the_type_are_kept() {
        let sample = of([0, u64::MAX]);
        assert_eq!((sample.min(), sample.max()), (Some(0), Some(u64::MAX)));
        assert_eq!(sample.quantiles([0, 1000]), Some([0.0, (0xffff_u64 << 48) as f64]));
        assert_eq!(sample.mean(), Some(u64::MAX as f64 / 2.0));
    }

    #[test]
    fn nothing_is_lost_when_the_array_takes_over() {
        let values: Vec<u64> = (0..3 * DENSE_FROM).map(|i| i * 7919 % 100_000).collect();
        let sample = of(values.iter().copied());
        assert!(!sample.dense.is_empty());
        let mut sorted: Vec<u64> = values.iter().map(|v| kept(*v)).collect();
        sorted.sort_unstable();
        let listed: Vec<u64> =
            sample.iter().flat_map(|(value, times)| (0..times).map(move |_| value)).collect();
        assert_eq!(listed, sorted);
    }

    proptest! {
        #[test]
        fn agrees_with_the_quantile_of_sorted_values(
            values in prop::collection::vec(0_u64..EXACT, 1..500), q in 0_u32..=1000
        ) {
            let [found] = of(values.iter().copied()).quantiles([q]).unwrap();
            let mut sorted: Vec<f64> = values.into_iter().map(|value| value as f64).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let known = crate::stats::quantile(&sorted, f64::from(q) / 1000.0).unwrap();
            prop_assert!((found - known).abs() < 1e-6, "{} {}", found, known);
        }

        #[test]
        fn large_values_keep_fifteen_bits_of_accuracy(value in EXACT..) {
            let error = (value - kept(value)) as f64 / value as f64;
            prop_assert!(error < 1.0 / 32_768.0);
        }

        #[test]
        fn merging_is_taking_both(a in prop::collection::vec(any::<u64>(), 0..50),
                                  b in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut merged = of(a.iter().copied());
            merged.merge(&of(b.iter().copied()));
            prop_assert_eq!(merged, of(a.into_iter().chain(b)));
        }
    }
}
