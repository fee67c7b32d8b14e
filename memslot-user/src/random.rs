//! Numbers from a seed: the same on every machine and with every version of every library.
//!
//! A run is described by its seed, so the generator must never change; `rand` promises that for none
//! of its small generators. This is SplitMix64 (Steele, Lea, Flood 2014), checked against its
//! published output.

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// A generator for one purpose of a run: `stream` keeps rounds, vCPUs and purposes apart.
    pub(crate) fn new(seed: u64, stream: &[u64]) -> Self {
        let mut random = Self(seed);
        for &part in stream {
            random.0 = random.next().wrapping_add(part);
        }
        random
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 where `bound` is 0. The bias is below `bound` / 2^64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into something `length` long.
    #[expect(clippy::cast_possible_truncation, reason = "below `length`, which is a usize")]
    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// Fisher–Yates.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_sequence_is_the_published_one() {
        // Output of Vigna's splitmix64.c for seed 1234567.
        let mut random = Random::new(1_234_567, &[]);
        let first: Vec<u64> = (0..5).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_streams_differ() {
        let shuffled = |stream| {
            let mut items: Vec<u32> = (0..500).collect();
            Random::new(7, &[stream]).shuffle(&mut items);
            items
        };
        let mut sorted = shuffled(1);
        assert_ne!(sorted, shuffled(2));
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..500));
    }

    #[test]
    fn below_stays_below_and_reaches_both_ends() {
        let mut random = Random::new(3, &[]);
        let seen: Vec<u64> = (0..1000).map(|_| random.below(5)).collect();
        assert_eq!((seen.iter().min(), seen.iter().max()), (Some(&0), Some(&4)));
        assert_eq!(random.below(0), 0);
    }
}
