//! Histogram bins. A bin holds the whole numbers `from..to`, its upper edge not included.

use crate::replay::Lengths;
use crate::stats::Sample;

/// A bin and how many values fell into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bin {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) count: u64,
}

/// Bins to a decade that make about 220 of the range: a narrow distribution gets finer ones.
pub(crate) fn per_decade(low: u64, high: u64) -> u32 {
    #[expect(clippy::cast_precision_loss, reason = "a number of decades")]
    let decades = (high.max(1) as f64 / low.max(1) as f64).log10();
    [240, 120, 60, 30].into_iter().find(|bins| decades * f64::from(*bins) <= 220.0).unwrap_or(15)
}

/// Lower edge of a bin: the first whole number not below 10^(index / per_decade). Powers of ten are
/// edges exactly, because only the fraction goes through floating point.
fn edge(index: u32, per_decade: u32) -> u64 {
    let Some(power) = 10_u64.checked_pow(index / per_decade) else { return u64::MAX };
    let fraction = 10f64.powf(f64::from(index % per_decade) / f64::from(per_decade));
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let edge = (power as f64 * fraction).ceil() as u64;
    edge
}

/// The values of a sample in bins that are even on a logarithmic axis. Bins of no whole number are
/// left out; 0 has a bin of its own. Only bins that hold something are listed.
pub(crate) fn of_times(sample: &Sample, per_decade: u32) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    let mut index = 0;
    for (value, count) in sample.iter() {
        match bins.last_mut() {
            Some(bin) if value < bin.to => bin.count += count,
            _ if value == 0 => bins.push(Bin { from: 0, to: 1, count }),
            _ => {
                while edge(index + 1, per_decade) <= value && edge(index + 1, per_decade) != u64::MAX {
                    index += 1;
                }
                bins.push(Bin { from: edge(index, per_decade), to: edge(index + 1, per_decade), count });
            }
        }
    }
    bins
}

/// Lengths up to this have a bin each.
const SINGLE: u32 = 16;

/// The bin that holds a length: its own up to 16, then four to each doubling.
fn length_bin(length: u32) -> (u64, u64) {
    if length <= SINGLE {
        return (u64::from(length), u64::from(length) + 1);
    }
    let octave = u64::from(length).ilog2();
    let quarter = (1_u64 << octave) / 4;
    let from = (u64::from(length) / quarter) * quarter;
    // 16 itself is single, so the first quarter after it begins at 17.
    (from.max(u64::from(SINGLE) + 1), from + quarter)
}

/// Lengths in bins; only those that hold something.
pub(crate) fn of_lengths(lengths: &Lengths) -> Vec<Bin> {
    let mut bins: Vec<Bin> = Vec::new();
    for (length, count) in &lengths.0 {
        match bins.last_mut() {
            Some(bin) if u64::from(*length) < bin.to => bin.count += count,
            _ => {
                let (from, to) = length_bin(*length);
                bins.push(Bin { from, to, count: *count });
            }
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_the_bin_that_claims_it() {
        for per_decade in [15, 30, 60, 120, 240] {
            for value in (0..3000).chain([9_999, 10_000, 65_535, 65_536, 1_000_000, u64::MAX >> 1]) {
                let mut sample = Sample::default();
                sample.add(value);
                let bins = of_times(&sample, per_decade);
                let kept = sample.iter().next().unwrap().0;
                assert_eq!(bins.len(), 1);
                assert!(bins[0].from <= kept && kept < bins[0].to, "{value} {:?}", bins[0]);
            }
        }
    }

    #[test]
    fn bins_do_not_overlap_and_lose_nothing() {
        let mut sample = Sample::default();
        (0..5000).for_each(|value| sample.add(value));
        for per_decade in [15, 30, 60, 120, 240] {
            let bins = of_times(&sample, per_decade);
            assert!(bins.windows(2).all(|pair| pair[0].to == pair[1].from), "{per_decade}");
            assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 5000);
            assert!(bins.iter().take_while(|bin| bin.to <= 5000).all(|bin| bin.count == bin.to - bin.from));
        }
    }

    #[test]
    fn powers_of_ten_begin_a_bin() {
        for power in 0..19 {
            let mut sample = Sample::default();
            let value = 10_u64.pow(power);
            assert_eq!(edge(power * 60, 60), value);
            if value < 1 << 16 {
                sample.add(value);
                sample.add(value - 1);
                let bins = of_times(&sample, 60);
                assert_eq!(bins.len(), 2, "{value}");
                assert_eq!(bins[1].from, value);
            }
        }
        assert_eq!(edge(30, 60), 4); // 10^0.5 = 3.16: the first whole number from there on is 4.
    }

    #[test]
    fn the_largest_value_has_a_bin() {
        let mut sample = Sample::default();
        sample.add(u64::MAX);
        sample.add(1);
        assert_eq!(of_times(&sample, 30).iter().map(|bin| bin.count).sum::<u64>(), 2);
    }

    #[test]
    fn lengths_are_single_up_to_sixteen_then_quarter_doublings() {
        assert_eq!(length_bin(0), (0, 1));
        assert_eq!(length_bin(16), (16, 17));
        assert_eq!(length_bin(17), (17, 20));
        assert_eq!(length_bin(20), (20, 24));
        assert_eq!(length_bin(31), (28, 32));
        assert_eq!(length_bin(32), (32, 40));
        assert_eq!(length_bin(509), (448, 512));
        assert_eq!(length_bin(512), (512, 640));
        for length in 0..10_000 {
            let (from, to) = length_bin(length);
            assert!(from <= u64::from(length) && u64::from(length) < to);
            assert!(to == u64::from(length) + 1 || length_bin(length + 1).0 == from);
        }
        assert!(length_bin(u32::MAX).1 > u64::from(u32::MAX));
    }

    #[test]
    fn length_quantiles_are_lengths_that_occurred() {
        let lengths = Lengths([(0, 1), (3, 8), (9, 1)].into());
        assert_eq!(lengths.quantile(500), Some(3));
        assert_eq!(lengths.quantile(100), Some(0));
        assert_eq!(lengths.quantile(990), Some(9));
        assert_eq!(Lengths::default().quantile(500), None);
    }
}
