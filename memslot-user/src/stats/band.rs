//! Bands that hold a whole curve, not each point for itself.

use super::quantile;

/// How many standard errors a band must reach to either side so that it holds the whole curve in 95 % of the
/// draws: the sup-t band (Montiel Olea and Plagborg-Møller, "Simultaneous confidence bands", 2019, algorithm 2).
/// `draws` are the bootstrap's curves less the estimate, by point of the curve, all equally many. With the
/// standard error of each point; 0 where nothing scatters.
#[must_use]
pub fn sup_t(draws: &[Vec<f64>]) -> (f64, Vec<f64>) {
    let errors: Vec<f64> = draws.iter().map(|point| deviation(point)).collect();
    let count = draws.iter().map(Vec::len).min().unwrap_or(0);
    let mut largest: Vec<f64> = (0..count)
        .map(|draw| {
            let scaled = draws.iter().zip(&errors).filter(|(_, error)| **error > 0.0);
            scaled.map(|(point, error)| (point[draw] / error).abs()).fold(0.0, f64::max)
        })
        .collect();
    largest.sort_unstable_by(f64::total_cmp);
    (quantile(&largest, 0.95).unwrap_or(0.0), errors)
}

/// The standard deviation of a sample; 0 of fewer than two values.
#[must_use]
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::simulated::normal;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    #[test]
    fn independent_points_need_sidaks_factor_and_equal_ones_a_single_points() {
        // Šidák 1967: qnorm((1 + .95^(1/9)) / 2) = 2.766 for nine points; 1.960 for one.
        let mut rng = SmallRng::seed_from_u64(5);
        let independent: Vec<Vec<f64>> =
            (0..9).map(|_| (0..20_000).map(|_| 7.0 * normal(&mut rng)).collect()).collect();
        let (factor, errors) = sup_t(&independent);
        assert!((factor - 2.766).abs() < 0.05, "{factor}");
        assert!((errors[3] - 7.0).abs() < 0.2, "{errors:?}");
        let equal = vec![independent[0].clone(); 9];
        assert!((sup_t(&equal).0 - 1.96).abs() < 0.05);
    }

    #[test]
    fn what_does_not_scatter_has_no_band() {
        assert_eq!(sup_t(&[vec![0.0; 10], vec![0.0; 10]]), (0.0, vec![0.0, 0.0]));
        assert_eq!(sup_t(&[]), (0.0, vec![]));
        // R: sd(c(2, 4, 4, 4, 5, 5, 7, 9)) is 2.13809.
        assert!((deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]) - 2.138_09).abs() < 1e-5);
        assert_eq!(deviation(&[3.0]), 0.0);
    }
}
