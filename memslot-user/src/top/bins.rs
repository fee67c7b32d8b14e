//! A latency histogram for a few lines of text.

use crate::stats::Sample;

/// Calls whose latency is from..to ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) count: u64,
}

/// The sample in at most so many bins of even width by their logarithm, without empty ends.
pub(super) fn of(sample: &Sample, most: usize) -> Vec<Bin> {
    let (Some(low), Some(high)) = (sample.min(), sample.max()) else { return Vec::new() };
    // As fine as fits: eighths of a doubling, quarters, halves, doublings, and so on.
    let width = (0..10)
        .map(|power| 1_u64 << power)
        .find(|width| (place(high) / width - place(low) / width + 1) <= most.max(1) as u64);
    let width = width.unwrap_or(512);
    let first = place(low) / width;
    let count = usize::try_from(place(high) / width - first + 1).unwrap_or(1);
    let mut bins: Vec<Bin> = (0..count as u64)
        .map(|bin| Bin { from: edge((first + bin) * width), to: edge((first + bin + 1) * width), count: 0 })
        .collect();
    for (value, times) in sample.iter() {
        // Large values are kept with fewer digits, which may put one before the first.
        let at = usize::try_from((place(value) / width).saturating_sub(first)).unwrap_or(0);
        if let Some(bin) = bins.get_mut(at.min(count - 1)) {
            bin.count += times;
        }
    }
    bins
}

/// Eighths of doublings up to a value; values below 8 have one each.
fn place(value: u64) -> u64 {
    if value < 8 {
        return value;
    }
    let octave = value.ilog2();
    u64::from(octave - 3) * 8 + (value >> (octave - 3))
}

/// The smallest value at a place.
fn edge(place: u64) -> u64 {
    if place < 16 {
        return place;
    }
    let octave = place / 8 - 1;
    (8 + place % 8)
        .checked_shl(u32::try_from(octave).unwrap_or(u32::MAX))
        .filter(|_| octave <= 60)
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_and_edges_agree() {
        for value in (0..4096).chain([65_535, 1 << 40, u64::MAX]) {
            assert!(edge(place(value)) <= value, "{value}");
            assert!(edge(place(value) + 1) > value || value == u64::MAX, "{value}");
        }
        assert_eq!((place(8), place(15), place(16), place(18)), (8, 15, 16, 17));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_there_is_room(values in prop::collection::vec(any::<u64>(), 0..100), most in 1_usize..40) {
            let mut sample = Sample::default();
            values.iter().for_each(|value| sample.add(*value));
            let bins = of(&sample, most);
            prop_assert!(bins.len() <= most);
            prop_assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), values.len() as u64);
            prop_assert!(bins.windows(2).all(|pair| pair[0].to == pair[1].from));
        }
    }
}
