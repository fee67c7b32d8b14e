//! Prometheus' native histograms: which bucket a value falls into, and how buckets travel.

use super::family::Native;
use std::collections::BTreeMap;

/// 2^4 buckets an octave: each is 4.4 % wide, and a quantile off by 2.2 % at most. Our own buckets are 1.6 % wide, so a
/// finer schema would promise what is not there.
pub(super) const SCHEMA: i32 = 4;

/// Buckets that a series may have, as many as Prometheus' own libraries allow; beyond, two are made one.
const MOST: usize = 160;

/// The bucket of `value`, which is above 0.
pub(super) fn index(value: f64) -> i32 {
    let exact = value.log2() * f64::from(1 << SCHEMA);
    #[expect(clippy::cast_possible_truncation, reason = "the logarithm of a u64, scaled, is small")]
    let index = exact.ceil() as i32;
    index
}

/// Buckets with few enough indices, at the finest schema that allows it.
pub(super) fn coarsened(zeros: u64, buckets: &BTreeMap<i32, u64>) -> Native {
    let mut native = Native { schema: SCHEMA, zeros, buckets: Vec::with_capacity(buckets.len()) };
    native.buckets.extend(buckets.iter().map(|(index, count)| (*index, *count)));
    // -4 is the coarsest that there is: 16 octaves a bucket.
    while native.buckets.len() > MOST && native.schema > -4 {
        native.schema -= 1;
        let mut merged: Vec<(i32, u64)> = Vec::with_capacity(native.buckets.len() / 2 + 1);
        for (index, count) in native.buckets {
            // (base^(i-1), base^i] lies in the bucket of twice the width with half the index, rounded up.
            let index = (index + 1).div_euclid(2);
            match merged.last_mut() {
                Some(last) if last.0 == index => last.1 += count,
                _ => merged.push((index, count)),
            }
        }
        native.buckets = merged;
    }
    native
}

/// A run of buckets without a gap: offset from the end of the run before (of the first: from 0), and length.
pub(super) type Span = (i32, u32);

/// Spans, and each bucket's count as the difference from the one before.
pub(super) fn spans(native: &Native) -> (Vec<Span>, Vec<i64>) {
    let mut spans: Vec<Span> = Vec::new();
    let mut deltas = Vec::with_capacity(native.buckets.len());
    let (mut expected, mut before) = (0, 0);
    for &(index, count) in &native.buckets {
        match spans.last_mut() {
            Some(last) if index == expected => last.1 += 1,
            _ => spans.push((index - expected, 1)),
        }
        expected = index + 1;
        let count = count.cast_signed();
        deltas.push(count - before);
        before = count;
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_are_inclusive_above() {
        assert_eq!(index(1.0), 0);
        assert_eq!(index(1.000_001), 1);
        assert_eq!(index(2.0), 16);
        assert_eq!(index(0.5), -16);
    }

    #[test]
    fn spans_and_deltas_are_those_of_the_specification() {
        let native = Native { schema: SCHEMA, zeros: 0, buckets: vec![(-2, 3), (-1, 1), (2, 1), (3, 5)] };
        assert_eq!(spans(&native), (vec![(-2, 2), (2, 2)], vec![3, -2, 0, 4]));
        assert_eq!(spans(&Native::default()), (vec![], vec![]));
    }

    proptest! {
        #[test]
        fn coarser_buckets_still_hold_their_values(values in prop::collection::vec(1u64..u64::MAX, 1..400)) {
            let mut buckets = BTreeMap::new();
            for value in &values {
                #[expect(clippy::cast_precision_loss, reason = "an index needs no more")]
                let value = *value as f64 * 1e-9;
                *buckets.entry(index(value)).or_insert(0) += 1;
            }
            let native = coarsened(0, &buckets);
            prop_assert!(native.buckets.len() <= MOST);
            prop_assert_eq!(native.buckets.iter().map(|bucket| bucket.1).sum::<u64>(), values.len() as u64);
            let width = f64::powi(2.0, -native.schema);
            for value in &values {
                #[expect(clippy::cast_precision_loss, reason = "an index needs no more")]
                let value = *value as f64 * 1e-9;
                let held = native.buckets.iter().any(|(index, _)| {
                    let high = f64::from(*index) * width;
                    (high - width - 1e-9..=high + 1e-9).contains(&value.log2())
                });
                prop_assert!(held, "{} is in no bucket", value);
            }
        }
    }
}
