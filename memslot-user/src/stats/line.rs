//! Straight lines through points that may hold outliers.

use super::median;

/// y = intercept + slope · x
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// y at x = 0.
    pub intercept: f64,
    /// y for every further x.
    pub slope: f64,
}

impl Line {
    /// y at `x`.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// Theil and Sen's line: the median of the slopes between all pairs of points with different x, and
/// the median of what is then left. Up to 29 % of the points may be wild. `None` where no two x differ.
/// Quadratic in the number of points.
#[must_use]
pub fn theil_sen(points: &[(f64, f64)]) -> Option<Line> {
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (place, (x, y)) in points.iter().enumerate() {
        let pairs = points[place + 1..].iter().filter(|other| other.0 != *x);
        slopes.extend(pairs.map(|other| (other.1 - y) / (other.0 - x)));
    }
    let slope = median(&mut slopes)?;
    let mut rest: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    Some(Line { intercept: median(&mut rest)?, slope })
}

/// The same of points that rest on different numbers of observations: `(x, y, observations)`. A pair
/// weighs as much as its slope is certain: by its distance in x and by the fewer observations of the
/// two. What is left is weighted by the observations.
#[must_use]
pub fn theil_sen_weighted(points: &[(f64, f64, f64)]) -> Option<Line> {
    let mut slopes = Vec::with_capacity(points.len() * points.len().saturating_sub(1) / 2);
    for (place, (x, y, count)) in points.iter().enumerate() {
        for other in points[place + 1..].iter().filter(|other| other.0 != *x) {
            let weight = (other.0 - x).abs() * (count * other.2 / (count + other.2)).sqrt();
            slopes.push(((other.1 - y) / (other.0 - x), weight));
        }
    }
    let slope = weighted_median(&mut slopes)?;
    let mut rest: Vec<(f64, f64)> = points.iter().map(|(x, y, count)| (y - slope * x, *count)).collect();
    Some(Line { intercept: weighted_median(&mut rest)?, slope })
}

/// The value at which half of the weight lies below; of `(value, weight)`, which it sorts. Between the
/// two values where exactly half lies below, their mean.
fn weighted_median(values: &mut [(f64, f64)]) -> Option<f64> {
    values.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let half = values.iter().map(|value| value.1).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (place, (value, weight)) in values.iter().enumerate() {
        below += weight;
        if below > half {
            return Some(*value);
        }
        if below == half {
            return Some(values.get(place + 1).map_or(*value, |next| value.midpoint(next.0)));
        }
    }
    values.last().map(|value| value.0)
}

/// Share of the variance of y that the line explains, 0 to 1; 1 where y does not vary and the line
/// meets every point.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "few points")]
pub fn r_squared(points: &[(f64, f64)], line: Line) -> f64 {
    let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
    let total: f64 = points.iter().map(|point| (point.1 - mean).powi(2)).sum();
    let left: f64 = points.iter().map(|point| (point.1 - line.at(point.0)).powi(2)).sum();
    if left == 0.0 {
        return 1.0;
    }
    if total == 0.0 { 0.0 } else { (1.0 - left / total).clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_is_found_and_an_outlier_ignored() {
        let mut points: Vec<(f64, f64)> =
            (1..=9).map(|x| (f64::from(x), 100.0 + 7.0 * f64::from(x))).collect();
        assert_eq!(theil_sen(&points), Some(Line { intercept: 100.0, slope: 7.0 }));
        points[4].1 = 1e6;
        assert_eq!(theil_sen(&points), Some(Line { intercept: 100.0, slope: 7.0 }));
    }

    #[test]
    fn the_published_example_is_reproduced() {
        // Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", 1968, section 6: slope 4.
        let points =
            [(1.0, 9.0), (2.0, 15.0), (3.0, 19.0), (4.0, 20.0), (10.0, 45.0), (12.0, 55.0), (18.0, 78.0)];
        let line = theil_sen(&points).unwrap();
        assert!((line.slope - 4.0).abs() < 1e-12, "{line:?}");
        assert!((line.intercept - 6.0).abs() < 1e-12, "{line:?}");
    }

    #[test]
    fn with_weights_the_well_observed_points_decide() {
        // Without weights the median of the three slopes 1, 3 and 5 is 3.
        let points = [(0.0, 0.0), (1.0, 1.0), (2.0, 6.0)];
        assert_eq!(theil_sen(&points).unwrap().slope, 3.0);
        // The last rests on one observation. Weights: 1 · √500, 2 · √0.999, 1 · √0.999.
        let weighted = [(0.0, 0.0, 1000.0), (1.0, 1.0, 1000.0), (2.0, 6.0, 1.0)];
        assert_eq!(theil_sen_weighted(&weighted), Some(Line { intercept: 0.0, slope: 1.0 }));
        // Equal observations: only the distance weighs, 1 + 2 + 1, and half lies below the 3.
        let equal = points.map(|(x, y)| (x, y, 4.0));
        assert_eq!(theil_sen_weighted(&equal).unwrap().slope, 3.0);
        assert_eq!(theil_sen_weighted(&[]), None);
        assert_eq!(weighted_median(&mut [(2.0, 1.0), (1.0, 1.0)]), Some(1.5));
    }

    #[test]
    fn no_line_without_two_places() {
        assert_eq!(theil_sen(&[]), None);
        assert_eq!(theil_sen(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }

    #[test]
    fn r_squared_is_the_explained_share() {
        let line = Line { intercept: 0.0, slope: 1.0 };
        assert_eq!(r_squared(&[(1.0, 1.0), (2.0, 2.0)], line), 1.0);
        // Mean 2, total 2; left 0 + 1 + 0 = 1.
        assert_eq!(r_squared(&[(1.0, 1.0), (3.0, 2.0), (3.0, 3.0)], line), 0.5);
        assert_eq!(r_squared(&[(5.0, 1.0), (9.0, 2.0)], line), 0.0);
        assert_eq!(r_squared(&[(5.0, 2.0), (9.0, 2.0)], line), 0.0);
    }
}
