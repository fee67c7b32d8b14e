//! Blocks of consecutive events, made while the events stream by: what the bootstrap inside a run draws.

use super::BlockBootstrap;

/// Blocks at most; when there are so many, neighbours are joined, so that between half of it and it are left.
const BLOCKS: usize = 64;
/// Values that wait to be sorted into a block's histogram.
const PENDING: usize = 1 << 14;
/// Significant bits of a value in a block: 11, so that a bin is at most 0.1 % wide.
const BITS: u32 = 11;

/// What a block keeps of its events.
pub trait Block: Default {
    /// Takes the events of the next block.
    fn join(&mut self, next: Self);
    /// The block is full.
    fn close(&mut self);
}

/// A stream of events in 32 to 64 blocks of equal length (the last may be shorter), whatever their number.
#[derive(Clone, Debug)]
pub struct Blocks<B> {
    blocks: Vec<B>,
    /// Events of a block.
    length: u64,
    /// Events in the last block.
    filled: u64,
}

impl<B> Default for Blocks<B> {
    fn default() -> Self {
        Self { blocks: Vec::new(), length: 1, filled: 1 }
    }
}

impl<B: Block> Blocks<B> {
    /// The block for the next event.
    pub fn open(&mut self) -> &mut B {
        if self.filled == self.length {
            if let Some(last) = self.blocks.last_mut() {
                last.close();
            }
            if self.blocks.len() == BLOCKS {
                self.halve();
            }
            self.blocks.push(B::default());
            self.filled = 0;
        }
        self.filled += 1;
        let last = self.blocks.len() - 1;
        &mut self.blocks[last]
    }

    fn halve(&mut self) {
        let mut joined = Vec::with_capacity(BLOCKS);
        let mut blocks = std::mem::take(&mut self.blocks).into_iter();
        while let Some(mut block) = blocks.next() {
            if let Some(next) = blocks.next() {
                block.join(next);
            }
            joined.push(block);
        }
        self.blocks = joined;
        self.length *= 2;
    }

    /// How often each block occurs in each of `count` resamples.
    fn draws(&self, count: usize, seed: u64) -> impl Iterator<Item = Vec<u32>> {
        let mut bootstrap = BlockBootstrap::new(self.blocks.len(), self.blocks.len(), seed);
        let blocks = self.blocks.len();
        (0..count).map(move |_| {
            let mut times = vec![0; blocks];
            bootstrap.draw().flatten().for_each(|block| times[block] += 1);
            times
        })
    }
}

/// A block's values, to within 0.1 %.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Bin and count, ascending.
    bins: Vec<(u32, u32)>,
    pending: Vec<u32>,
}

impl Histogram {
    /// Takes one value.
    pub fn add(&mut self, value: u64) {
        self.pending.push(bin(value));
        if self.pending.len() >= PENDING {
            self.close();
        }
    }

    fn take(&mut self, others: &[(u32, u32)]) {
        let mine = std::mem::take(&mut self.bins);
        let (mut one, mut other) = (mine.iter().copied().peekable(), others.iter().copied().peekable());
        self.bins.reserve(mine.len() + others.len());
        loop {
            let entry = match (one.peek(), other.peek()) {
                (Some(a), Some(b)) if a.0 == b.0 => {
                    let sum = (a.0, a.1.saturating_add(b.1));
                    one.next();
                    other.next();
                    sum
                }
                (Some(a), Some(b)) if a.0 > b.0 => {
                    let entry = *b;
                    other.next();
                    entry
                }
                (Some(a), _) => {
                    let entry = *a;
                    one.next();
                    entry
                }
                (None, Some(b)) => {
                    let entry = *b;
                    other.next();
                    entry
                }
                (None, None) => return,
            };
            self.bins.push(entry);
        }
    }
}

impl Block for Histogram {
    fn join(&mut self, mut next: Self) {
        self.close();
        next.close();
        self.take(&next.bins);
    }

    fn close(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        pending.sort_unstable();
        let counted: Vec<(u32, u32)> = pending
            .chunk_by(|a, b| a == b)
            .map(|same| (same[0], u32::try_from(same.len()).unwrap_or(u32::MAX)))
            .collect();
        if self.bins.is_empty() {
            self.bins = counted;
        } else {
            self.take(&counted);
        }
    }
}

impl Blocks<Histogram> {
    /// The quantiles at some levels (per mille) of `count` resamples of the blocks. They are those of the bins, so
    /// only their differences from [`Blocks::quantiles`] are of use.
    #[must_use]
    pub fn resample(&self, levels: &[u32], count: usize, seed: u64) -> Vec<Vec<f64>> {
        let closed = self.closed();
        self.draws(count, seed).map(|times| quantiles(&closed, &times, levels)).collect()
    }

    /// The quantiles of the bins themselves.
    #[must_use]
    pub fn quantiles(&self, levels: &[u32]) -> Vec<f64> {
        quantiles(&self.closed(), &vec![1; self.blocks.len()], levels)
    }

    /// Place of the block, place of the bin, count; and the bins.
    fn closed(&self) -> Flat {
        let blocks: Vec<Histogram> = self
            .blocks
            .iter()
            .map(|block| {
                let mut block = block.clone();
                block.close();
                block
            })
            .collect();
        let mut values: Vec<u32> =
            blocks.iter().flat_map(|block| block.bins.iter().map(|bin| bin.0)).collect();
        values.sort_unstable();
        values.dedup();
        let mut entries = Vec::new();
        for (place, block) in blocks.iter().enumerate() {
            let mut at = 0;
            for (bin, count) in &block.bins {
                while values[at] != *bin {
                    at += 1;
                }
                entries.push((place, at, *count));
            }
        }
        Flat { values, entries }
    }
}

struct Flat {
    values: Vec<u32>,
    entries: Vec<(usize, usize, u32)>,
}

/// Quantiles of type 7 of the blocks, each taken so many times.
fn quantiles(flat: &Flat, times: &[u32], levels: &[u32]) -> Vec<f64> {
    let mut counts = vec![0_u64; flat.values.len()];
    for (block, bin, count) in &flat.entries {
        counts[*bin] += u64::from(times[*block]) * u64::from(*count);
    }
    let mut seen = 0;
    for count in &mut counts {
        seen += *count;
        *count = seen;
    }
    if seen == 0 {
        return vec![f64::NAN; levels.len()];
    }
    let value = |rank: u64| centre(flat.values[counts.partition_point(|below| *below <= rank)]);
    levels
        .iter()
        .map(|level| {
            let place = u128::from(seen - 1) * u128::from(*level);
            #[expect(clippy::cast_possible_truncation, reason = "at most the rank of the last value")]
            let (rank, share) = ((place / 1000) as u64, (place % 1000) as f64 / 1000.0);
            let low = value(rank);
            if share == 0.0 { low } else { low + share * (value(rank + 1) - low) }
        })
        .collect()
}

/// The bin of a value: the value itself up to 2047, then 1024 bins to each doubling.
fn bin(value: u64) -> u32 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS);
    #[expect(clippy::cast_possible_truncation, reason = "below 2^11")]
    let mantissa = (value >> shift) as u32;
    (shift << (BITS - 1)) + mantissa
}

/// The middle of a bin's values.
fn centre(bin: u32) -> f64 {
    let shift = (bin >> (BITS - 1)).saturating_sub(1);
    let low = u64::from(bin - (shift << (BITS - 1))) << shift;
    low as f64 + ((1_u64 << shift) - 1) as f64 / 2.0
}

/// A block's mean: of something that each of its events has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    count: u64,
    sum: u64,
}

impl Sum {
    /// Takes one value.
    pub fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
    }
}

impl Block for Sum {
    fn join(&mut self, next: Self) {
        self.count += next.count;
        self.sum = self.sum.saturating_add(next.sum);
    }

    fn close(&mut self) {}
}

impl Blocks<Sum> {
    /// The mean over all events; `None` without any.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.mean_of(&vec![1; self.blocks.len()])
    }

    /// The means of `count` resamples of the blocks.
    #[must_use]
    pub fn resample(&self, count: usize, seed: u64) -> Vec<f64> {
        self.draws(count, seed).filter_map(|times| self.mean_of(&times)).collect()
    }

    fn mean_of(&self, times: &[u32]) -> Option<f64> {
        let (mut count, mut sum) = (0.0, 0.0);
        for (block, times) in self.blocks.iter().zip(times) {
            count += block.count as f64 * f64::from(*times);
            sum += block.sum as f64 * f64::from(*times);
        }
        (count > 0.0).then(|| sum / count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Sample;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Blocks<Histogram> {
        let mut blocks = Blocks::<Histogram>::default();
        values.into_iter().for_each(|value| blocks.open().add(value));
        blocks
    }

    #[test]
    fn blocks_are_equal_and_their_number_is_bounded() {
        for events in [1_u64, 63, 64, 65, 1000, 100_000] {
            let blocks = of(0..events);
            assert!(
                blocks.blocks.len() <= BLOCKS && (blocks.blocks.len() > BLOCKS / 2 || events < 64),
                "{events}"
            );
            let counts: Vec<u64> = blocks
                .blocks
                .into_iter()
                .map(|mut block| {
                    block.close();
                    block.bins.iter().map(|bin| u64::from(bin.1)).sum()
                })
                .collect();
            assert_eq!(counts.iter().sum::<u64>(), events);
            let (last, whole) = counts.split_last().unwrap();
            assert!(
                whole.iter().all(|count| *count == blocks.length) && *last <= blocks.length,
                "{counts:?}"
            );
        }
        assert!(of([]).quantiles(&[500])[0].is_nan());
    }

    #[test]
    fn events_that_follow_each_other_stay_together() {
        // A run whose second half is slower: whole blocks of it come and go, so the median swings between
        // the halves. Drawn one by one it would hardly leave their border.
        let blocks = of((0..6400).map(|event| if event < 3200 { 100 } else { 200 }));
        let medians = blocks.resample(&[500], 400, 1);
        let slow = medians.iter().filter(|levels| levels[0] == 200.0).count();
        assert!((120..280).contains(&slow), "{slow} of 400");
    }

    #[test]
    fn the_means_scatter_as_theory_says() {
        let mut blocks = Blocks::<Sum>::default();
        for event in 0..8192_u64 {
            blocks.open().add(event / 128 % 2 * 100);
        }
        assert_eq!(blocks.mean(), Some(50.0));
        // 64 blocks of 0 or 100: the standard error is 50 / 8.
        let means = blocks.resample(2000, 3);
        let variance = means.iter().map(|mean| (mean - 50.0).powi(2)).sum::<f64>() / 2000.0;
        assert!((variance.sqrt() - 6.25).abs() < 0.4, "{}", variance.sqrt());
        assert_eq!(Blocks::<Sum>::default().mean(), None);
    }

    proptest! {
        #[test]
        fn a_bin_holds_its_values_closely_and_in_order(value in any::<u64>(), other in any::<u64>()) {
            let found = centre(bin(value));
            prop_assert!((found - value as f64).abs() <= value as f64 / 2048.0 + 0.01, "{value} {found}");
            prop_assert_eq!(value.min(other) == value || bin(value) >= bin(other), true);
        }

        #[test]
        fn the_quantiles_are_those_of_the_sample(values in prop::collection::vec(0_u64..2048, 1..3000)) {
            let mut sample = Sample::default();
            values.iter().for_each(|value| sample.add(*value));
            let exact = sample.quantiles([500, 900, 990, 999]).unwrap();
            for (found, exact) in of(values).quantiles(&[500, 900, 990, 999]).into_iter().zip(exact) {
                prop_assert!((found - exact).abs() < 1e-6);
            }
        }
    }
}
