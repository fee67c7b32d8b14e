//! The bootstrap: how a figure would scatter if the measurement were made again.

use super::quantile;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Draws blocks of consecutive events with replacement. Events that follow each other are alike (the
/// same page table, the same warm cache); drawn one by one they would promise too narrow an interval.
#[derive(Debug)]
pub struct BlockBootstrap {
    rng: SmallRng,
    events: usize,
    blocks: usize,
}

impl BlockBootstrap {
    /// Draws from `events` events in `blocks` blocks of nearly equal length. The same seed draws the
    /// same again, so that a report can be reproduced.
    #[must_use]
    pub fn new(events: usize, blocks: usize, seed: u64) -> Self {
        Self { rng: SmallRng::seed_from_u64(seed), events, blocks: blocks.min(events) }
    }

    /// One resample: as many blocks as there are, each a range of events.
    pub fn draw(&mut self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        (0..self.blocks).map(|_| {
            let block = self.rng.random_range(0..self.blocks);
            block * self.events / self.blocks..(block + 1) * self.events / self.blocks
        })
    }
}

/// The middle 95 % of the figure's values over the resamples, which it sorts.
pub fn percentile_interval(values: &mut [f64]) -> Option<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    Some((quantile(values, 0.025)?, quantile(values, 0.975)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_the_events_once_each() {
        let mut bootstrap = BlockBootstrap::new(103, 10, 1);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..100 {
            let drawn: Vec<_> = bootstrap.draw().collect();
            assert_eq!(drawn.len(), 10);
            seen.extend(drawn.into_iter().map(|block| (block.start, block.end)));
        }
        let mut end = 0;
        for (start, next) in seen {
            assert_eq!(start, end, "blocks follow each other");
            assert!((10..=11).contains(&(next - start)));
            end = next;
        }
        assert_eq!(end, 103);
        assert_eq!(BlockBootstrap::new(0, 10, 1).draw().count(), 0);
    }

    #[test]
    fn the_interval_of_a_mean_is_that_of_theory() {
        // 400 draws of a fair coin: the mean's standard error is 0.025, so ± 0.049 at 95 %.
        let coins: Vec<f64> = (0..400_u32).map(|at| f64::from(at.wrapping_mul(0x9e37_79b9) >> 31)).collect();
        let mut bootstrap = BlockBootstrap::new(400, 400, 7);
        let mut means: Vec<f64> =
            (0..4000).map(|_| bootstrap.draw().flatten().map(|at| coins[at]).sum::<f64>() / 400.0).collect();
        let (low, high) = percentile_interval(&mut means).unwrap();
        assert!((high - low - 0.098).abs() < 0.006, "{low} {high}");
        assert_eq!(percentile_interval(&mut []), None);
    }
}
