//! A bounded, unbiased sample of a stream, in blocks of consecutive items.
//!
//! Blocks, because neighbours are alike: what rests on the sample (the bootstrap, the held-out part, the
//! timing with its warm caches) needs neighbours that stay neighbours.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Draws the same again from the same stream.
const SEED: u64 = 0x6d65_6d73_6c6f_7432;

/// The sample: every block of the stream is in it with the same chance (Vitter's algorithm R).
#[derive(Debug)]
pub(super) struct Reservoir<T> {
    /// With the number of the block in the stream.
    blocks: Vec<(u64, Vec<T>)>,
    most: usize,
    block: usize,
    /// Items that the stream had.
    seen: u64,
    /// Where the items of the block at hand go, if they are kept.
    at: Option<usize>,
    rng: SmallRng,
}

impl<T> Reservoir<T> {
    /// Keeps at most `most` blocks of `block` items.
    pub(super) fn new(most: usize, block: usize) -> Self {
        Self { blocks: Vec::new(), most, block, seen: 0, at: None, rng: SmallRng::seed_from_u64(SEED) }
    }

    /// The next item of the stream, made only if it is kept.
    pub(super) fn offer(&mut self, item: impl FnOnce() -> T) {
        let block = self.block.max(1) as u64;
        if self.seen.is_multiple_of(block) {
            self.begin(self.seen / block);
        }
        self.seen += 1;
        if let Some((_, items)) = self.at.and_then(|at| self.blocks.get_mut(at)) {
            items.push(item());
        }
    }

    fn begin(&mut self, number: u64) {
        if self.blocks.len() < self.most {
            self.at = Some(self.blocks.len());
            self.blocks.push((number, Vec::with_capacity(self.block)));
            return;
        }
        let drawn = usize::try_from(self.rng.random_range(0..=number)).ok();
        self.at = drawn.filter(|drawn| *drawn < self.most);
        if let Some((held, items)) = self.at.and_then(|at| self.blocks.get_mut(at)) {
            *held = number;
            items.clear();
        }
    }

    /// What is kept, in the order of the stream.
    pub(super) fn into_items(mut self) -> Vec<T> {
        self.blocks.sort_unstable_by_key(|(number, _)| *number);
        self.blocks.into_iter().flat_map(|(_, items)| items).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(items: u64, most: usize) -> Vec<u64> {
        let mut reservoir = Reservoir::new(most, 10);
        (0..items).for_each(|item| reservoir.offer(|| item));
        reservoir.into_items()
    }

    #[test]
    fn a_stream_that_fits_is_kept_whole_and_in_order() {
        for items in [0, 1, 9, 10, 395, 400] {
            assert_eq!(kept(items, 40), (0..items).collect::<Vec<_>>());
        }
    }

    #[test]
    fn blocks_stay_whole_and_in_order() {
        let items = kept(100_000, 40);
        assert_eq!(items.len(), 400);
        assert!(items.chunks(10).all(|block| block[0] % 10 == 0 && block[9] == block[0] + 9));
        assert!(items.is_sorted());
        assert_eq!(items, kept(100_000, 40), "the same again");
    }

    /// Each block with the same chance: 400 blocks for 40 places, over streams that differ in what is
    /// drawn because each reservoir goes on with its own random numbers.
    #[test]
    fn no_part_of_the_stream_is_favoured() {
        let mut tenths = [0_u32; 10];
        for seed in 0..500 {
            let mut reservoir = Reservoir::new(40, 1);
            reservoir.rng = SmallRng::seed_from_u64(seed);
            (0..400_usize).for_each(|item| reservoir.offer(|| item));
            reservoir.into_items().into_iter().for_each(|item| tenths[item / 40] += 1);
        }
        // 2000 expected in each, with a standard deviation of about 42.
        assert!(tenths.iter().all(|count| (1800..2200).contains(count)), "{tenths:?}");
    }
}
