//! Two samples compared by ranks: whatever their distributions, and however wild single values are.

use super::{median, normal_cdf};

/// Values of both samples together up to which the distribution of the rank sum is counted out.
const EXACT: usize = 60;

/// The two-sided p value of the Mann–Whitney–Wilcoxon test.
///
/// Up to 60 values the distribution of the rank sum over all ways to divide the pooled values is counted out,
/// ties with their mean ranks; above, it is the normal approximation with corrections for ties and
/// continuity. 1 where a sample is empty.
#[must_use]
pub fn mann_whitney(one: &[f64], other: &[f64]) -> f64 {
    if one.is_empty() || other.is_empty() {
        return 1.0;
    }
    let ranks = doubled_ranks(one, other);
    let total = one.len() + other.len();
    let sum: usize = ranks[..one.len()].iter().sum();
    // The mean of twice the rank sum is a whole number times a half: kept doubled again.
    let mean = one.len() * (total + 1);
    let off = sum.abs_diff(mean);
    if total <= EXACT { exact(&ranks, one.len(), mean, off) } else { approximate(&ranks, one.len(), off) }
}

/// The smallest p value that samples of so many different values could give.
#[must_use]
pub fn least_p(one: usize, other: usize) -> f64 {
    // 2 / C(one + other, one)
    let ways = (1..=one).fold(1.0, |ways, k| ways * (other + k) as f64 / k as f64);
    (2.0 / ways).min(1.0)
}

/// Twice the rank (from 1, ties their mean) of each value of the pooled samples, the first sample's first.
fn doubled_ranks(one: &[f64], other: &[f64]) -> Vec<usize> {
    let pooled: Vec<f64> = one.iter().chain(other).copied().collect();
    let mut order: Vec<usize> = (0..pooled.len()).collect();
    order.sort_by(|a, b| pooled[*a].total_cmp(&pooled[*b]));
    let mut ranks = vec![0; pooled.len()];
    let mut from = 0;
    while from < order.len() {
        let tied = order[from..].iter().take_while(|place| pooled[**place] == pooled[order[from]]).count();
        for place in &order[from..from + tied] {
            // Ranks from + 1 to from + tied; twice their mean.
            ranks[*place] = 2 * from + tied + 1;
        }
        from += tied;
    }
    ranks
}

/// Share of all choices of `chosen` ranks whose sum is as far from the mean.
fn exact(ranks: &[usize], chosen: usize, mean: usize, off: usize) -> f64 {
    let most: usize = ranks.iter().sum();
    // ways[k][s]: how many choices of k of the ranks so far have the sum s. Up to C(60, 30), which a double
    // holds to 16 digits.
    let mut ways = vec![vec![0.0_f64; most + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for k in (1..=chosen).rev() {
            let (fewer, more) = ways.split_at_mut(k);
            for sum in *rank..=most {
                more[0][sum] += fewer[k - 1][sum - rank];
            }
        }
    }
    let all: f64 = ways[chosen].iter().sum();
    let far = ways[chosen].iter().enumerate().filter(|(sum, _)| sum.abs_diff(mean) >= off);
    (far.map(|(_, count)| count).sum::<f64>() / all).min(1.0)
}

fn approximate(ranks: &[usize], chosen: usize, off: usize) -> f64 {
    let (one, total) = (chosen as f64, ranks.len() as f64);
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    let ties: f64 =
        sorted.chunk_by(|a, b| a == b).map(|tie| (tie.len() as f64).powi(3) - tie.len() as f64).sum();
    let variance = one * (total - one) / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    // `off` is of twice the ranks; half a rank is taken off for continuity.
    let z = (off as f64 / 2.0 - 0.5).max(0.0) / variance.sqrt();
    (2.0 * normal_cdf(-z)).min(1.0)
}

/// Hodges and Lehmann's shift: the median of all differences between a value of `after` and one of
/// `before` ("Estimates of Location Based on Rank Tests", 1963). `None` where a sample is empty.
#[must_use]
pub fn hodges_lehmann(before: &[f64], after: &[f64]) -> Option<f64> {
    let mut differences: Vec<f64> =
        after.iter().flat_map(|later| before.iter().map(move |earlier| later - earlier)).collect();
    median(&mut differences)
}

/// Cliff's delta ("Dominance Statistics", 1993): how much more often a value of `after` exceeds one of `before`
/// than the other way round, -1 to 1. 0 where a sample is empty.
#[must_use]
pub fn cliffs_delta(before: &[f64], after: &[f64]) -> f64 {
    let pairs = before.len() * after.len();
    if pairs == 0 {
        return 0.0;
    }
    let signs = after.iter().flat_map(|later| {
        before.iter().map(move |earlier| f64::from(i8::from(later > earlier) - i8::from(later < earlier)))
    });
    signs.sum::<f64>() / pairs as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(found: f64, known: f64) {
        assert!((found - known).abs() < 1e-9 * known.abs().max(1e-3), "{found}, and {known} is known");
    }

    const MALES: [f64; 5] = [19.0, 22.0, 16.0, 29.0, 24.0];
    const FEMALES: [f64; 4] = [20.0, 11.0, 17.0, 12.0];
    /// Permeability constants of the human chorioamnion at term and before: Hollander and Wolfe, example 4.1.
    const TERM: [f64; 10] = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
    const EARLY: [f64; 5] = [1.15, 0.88, 0.90, 0.74, 1.21];
    /// The example of R's effsize::cliff.delta, with ties.
    const TREATED: [f64; 10] = [10.0, 10.0, 20.0, 20.0, 20.0, 30.0, 30.0, 30.0, 40.0, 50.0];
    const CONTROL: [f64; 6] = [10.0, 20.0, 30.0, 40.0, 40.0, 50.0];

    #[test]
    fn the_published_examples_of_the_test_are_reproduced() {
        // SciPy's documentation of mannwhitneyu: exact p 0.1111.
        near(mann_whitney(&MALES, &FEMALES), 1.0 / 9.0);
        // R's documentation of wilcox.test has the one-sided p 0.1272; two-sided it is twice that.
        near(mann_whitney(&TERM, &EARLY), 0.254_412_254_412_254_4);
        // With ties: SciPy's permutation_test over all 8008 divisions.
        near(mann_whitney(&TREATED, &CONTROL), 0.451_673_326_673_326_67);
        // SciPy's asymptotic p of the same data.
        near(approximate(&doubled_ranks(&MALES, &FEMALES), 5, 14), 0.111_346_886_533_140_41);
    }

    #[test]
    fn large_samples_with_ties_are_those_of_scipy() {
        let one: Vec<f64> = (0..40).map(|i| f64::from(i * 37 % 101)).collect();
        let other: Vec<f64> = (0..35).map(|i| f64::from(i * 53 % 97 + 6)).collect();
        // mannwhitneyu(method="asymptotic")
        near(mann_whitney(&one, &other), 0.919_631_813_252_718_3);
    }

    #[test]
    fn nothing_is_found_where_nothing_differs_or_nothing_is_there() {
        assert_eq!(mann_whitney(&[5.0; 4], &[5.0; 4]), 1.0);
        assert_eq!(mann_whitney(&[5.0; 40], &[5.0; 40]), 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), 1.0);
        assert_eq!(cliffs_delta(&[], &[1.0]), 0.0);
        assert_eq!(hodges_lehmann(&[], &[1.0]), None);
    }

    #[test]
    fn the_least_p_is_that_of_samples_which_do_not_overlap() {
        for (one, other) in [(1, 1), (2, 2), (3, 3), (4, 5), (10, 10), (20, 20)] {
            let low: Vec<f64> = (0..one).map(|value| value as f64).collect();
            let high: Vec<f64> = (0..other).map(|value| 100.0 + value as f64).collect();
            near(mann_whitney(&low, &high), least_p(one, other));
        }
        near(least_p(2, 2), 1.0 / 3.0);
        near(least_p(10, 10), 2.0 / 184_756.0);
    }

    #[test]
    fn effects_are_those_published() {
        // effsize: delta estimate -0.25.
        assert_eq!(cliffs_delta(&CONTROL, &TREATED), -0.25);
        // Hollander and Wolfe, example 4.3; R's wilcox.test(conf.int = TRUE): 0.305.
        near(hodges_lehmann(&EARLY, &TERM).unwrap(), 0.305);
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
    }

    proptest! {
        #[test]
        fn the_test_knows_no_order_no_unit_and_no_zero(
            one in prop::collection::vec(0_u8..20, 1..8), other in prop::collection::vec(0_u8..20, 1..8)
        ) {
            let floats = |values: &[u8]| values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
            let (one, other) = (floats(&one), floats(&other));
            let p = mann_whitney(&one, &other);
            prop_assert!((p - mann_whitney(&other, &one)).abs() < 1e-12);
            // Ties can leave one of the two tails empty.
            prop_assert!(p >= least_p(one.len(), other.len()) / 2.0 - 1e-12 && p <= 1.0);
            let moved = |values: &[f64]| values.iter().map(|value| value.exp() + 3.0).collect::<Vec<_>>();
            prop_assert!((p - mann_whitney(&moved(&one), &moved(&other))).abs() < 1e-12);
            prop_assert!((cliffs_delta(&one, &other) + cliffs_delta(&other, &one)).abs() < 1e-12);
        }
    }
}
