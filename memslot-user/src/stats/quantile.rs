//! Quantiles, and the interval of a median.

/// The quantile `p` (0 to 1) of ascending values, by linear interpolation between the two nearest
/// (Hyndman and Fan's type 7, the default of R and numpy); `None` where there are no values.
#[must_use]
pub fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let (low, share) = position(sorted.len(), p)?;
    let value = sorted[low];
    Some(sorted.get(low + 1).map_or(value, |next| value + share * (next - value)))
}

/// The same of values in any order, which it reorders; linear in their number.
pub fn quantile_unsorted(values: &mut [f64], p: f64) -> Option<f64> {
    let (low, share) = position(values.len(), p)?;
    let (_, value, above) = values.select_nth_unstable_by(low, f64::total_cmp);
    let value = *value;
    let next = above.iter().copied().min_by(f64::total_cmp);
    Some(next.map_or(value, |next| value + share * (next - value)))
}

/// The median of values in any order, which it reorders.
pub fn median(values: &mut [f64]) -> Option<f64> {
    quantile_unsorted(values, 0.5)
}

/// Where the quantile lies: behind which value, and how far on to the next.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place in an array of far less than 2^53 values, clamped to it"
)]
fn position(count: usize, p: f64) -> Option<(usize, f64)> {
    let most = count.checked_sub(1)?;
    let place = p.clamp(0.0, 1.0) * most as f64;
    let low = (place.floor() as usize).min(most);
    Some((low, place - low as f64))
}

/// Ranks (from 0) of the two of `count` ascending values between which the median lies with 95 %
/// confidence, whatever the distribution: the narrowest symmetric pair by the binomial. With fewer
/// than six values no pair reaches 95 %, and the extremes are the best there is.
#[must_use]
pub fn median_ranks(count: usize) -> Option<(usize, usize)> {
    let most = count.checked_sub(1)?;
    #[expect(clippy::cast_precision_loss, reason = "far less than 2^53 values")]
    let trials = count as f64;
    if count > 1000 {
        // The binomial's first terms underflow; its normal approximation is exact to a rank here.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and count")]
        let low = (trials / 2.0 - 0.98 * trials.sqrt()).floor() as usize;
        return Some((low, most - low));
    }
    let mut term = 0.5_f64.powf(trials);
    let (mut tail, mut low, mut rank) = (term, 0, 0.0);
    loop {
        // The chance that at most `low + 1` values lie below the median.
        rank += 1.0;
        term *= (trials - rank + 1.0) / rank;
        tail += term;
        if tail > 0.025 || low + 1 > most / 2 {
            return Some((low, most - low));
        }
        low += 1;
    }
}

/// The median of ascending values with its interval at 95 % confidence, by order statistics.
#[must_use]
pub fn median_interval(sorted: &[f64]) -> Option<(f64, f64, f64)> {
    let (low, high) = median_ranks(sorted.len())?;
    Some((quantile(sorted, 0.5)?, sorted[low], sorted[high]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_r_and_numpy() {
        // R: quantile(c(1, 2, 4, 8, 16), c(0, .25, .5, .9, 1)) is 1.0 2.0 4.0 12.8 16.0
        let sorted = [1.0, 2.0, 4.0, 8.0, 16.0];
        for (p, expected) in [(0.0, 1.0), (0.25, 2.0), (0.5, 4.0), (0.9, 12.8), (1.0, 16.0), (2.0, 16.0)] {
            assert!((quantile(&sorted, p).unwrap() - expected).abs() < 1e-12, "{p}");
            let mut mixed = [8.0, 1.0, 16.0, 4.0, 2.0];
            assert!((quantile_unsorted(&mut mixed, p).unwrap() - expected).abs() < 1e-12, "{p}");
        }
        assert_eq!(quantile(&[1.0, 2.0], 0.5), Some(1.5));
        assert_eq!(median(&mut [3.0]), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn the_medians_ranks_are_those_of_the_published_table() {
        // Conover, Practical Nonparametric Statistics, and the sign test's table at 5 % two-sided: ranks
        // from 1 are (1, 6) of 6, (2, 9) of 10, (4, 12) of 15, (6, 15) of 20, (6, 16) of 21, (10, 21) of 30.
        for (count, low, high) in [(6, 1, 6), (10, 2, 9), (15, 4, 12), (20, 6, 15), (21, 6, 16), (30, 10, 21)]
        {
            assert_eq!(median_ranks(count), Some((low - 1, high - 1)), "{count}");
        }
        // The approximation goes on where the binomial ends.
        assert_eq!(median_ranks(1000), Some((468, 531)));
        assert_eq!(median_ranks(1001), Some((469, 531)));
        assert_eq!(median_ranks(5), Some((0, 4)));
        assert_eq!(median_ranks(1), Some((0, 0)));
        assert_eq!(median_ranks(0), None);
    }
}
