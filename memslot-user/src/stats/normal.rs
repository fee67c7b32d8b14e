//! The two distributions that intervals and tests refer to.

use std::f64::consts::PI;

/// Chance that a standard normal variable is at most `x`.
///
/// Up to 3 by the series of Marsaglia ("Evaluating the Normal Distribution", 2004), beyond by Laplace's
/// continued fraction, whose relative accuracy holds in the tail.
#[must_use]
pub fn normal_cdf(x: f64) -> f64 {
    let density = (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
    if x.abs() <= 3.0 {
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term.abs() > 1e-17 {
            odd += 2.0;
            term *= x * x / odd;
            sum += term;
        }
        return 0.5 + density * sum;
    }
    let size = x.abs();
    let fraction = (1..=60).rev().fold(size, |below, k| size + f64::from(k) / below);
    let tail = density / fraction;
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// The value that Student's t of `freedom` degrees exceeds in either direction in 5 % of cases.
///
/// By bisection of the finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4. Infinite without a degree.
#[must_use]
pub fn t_two_sided_95(freedom: usize) -> f64 {
    if freedom == 0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if within(middle, freedom) < 0.95 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Chance that |t| is at most `t`.
fn within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let square = angle.cos().powi(2);
    let odd = freedom % 2 == 1;
    let mut term = if odd { angle.cos() } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let mut place = if odd { 3 } else { 2 };
    while place < freedom {
        term *= square * (place - 1) as f64 / place as f64;
        sum += term;
        place += 2;
    }
    if odd { 2.0 / PI * (angle + angle.sin() * sum) } else { angle.sin() * sum }
}

/// The share to cut off at either end of a bootstrap distribution of `count` observations, so that what is
/// left covers 95 %: the expanded percentile interval of Hesterberg ("What Teachers Should Know About the
/// Bootstrap", 2015, section 5.3), for the plain one is too narrow for few observations.
#[must_use]
pub fn expanded_tail(count: usize) -> f64 {
    let Some(freedom) = count.checked_sub(1).filter(|freedom| *freedom > 0) else { return 0.0 };
    normal_cdf(-(count as f64 / freedom as f64).sqrt() * t_two_sided_95(freedom))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        // R: pnorm(c(-1.96, -5, -8, 0.5, 3)), 9 digits.
        for (x, expected) in [
            (-1.96, 2.499_789_51e-2),
            (-5.0, 2.866_515_72e-7),
            (-8.0, 6.220_960_57e-16),
            (0.5, 0.691_462_461),
            (3.0, 0.998_650_102),
            (0.0, 0.5),
        ] {
            let found = normal_cdf(x);
            assert!((found / expected - 1.0).abs() < 1e-8, "{x}: {found}");
        }
        let (below, above) = (normal_cdf(-3.000_001), normal_cdf(-2.999_999));
        assert!(below < above && above - below < 1e-7, "no step where the method changes: {below} {above}");
    }

    #[test]
    fn students_t_is_that_of_the_tables() {
        // R: qt(.975, c(1, 2, 4, 9, 19, 30)).
        for (freedom, expected) in [
            (1, 12.706_205),
            (2, 4.302_653),
            (4, 2.776_445),
            (9, 2.262_157),
            (19, 2.093_024),
            (30, 2.042_272),
        ] {
            assert!((t_two_sided_95(freedom) - expected).abs() < 1e-6, "{freedom}");
        }
    }

    #[test]
    fn the_expanded_tail_is_that_of_the_formula() {
        // R: pnorm(-sqrt(n/(n-1)) * qt(.975, n-1)).
        for (count, expected) in
            [(3, 6.834_137e-8), (5, 9.541_006e-4), (10, 8.550_639e-3), (20, 1.588_083e-2)]
        {
            assert!((expanded_tail(count) / expected - 1.0).abs() < 1e-5, "{count}");
        }
        assert_eq!((expanded_tail(0), expanded_tail(1)), (0.0, 0.0));
    }
}
