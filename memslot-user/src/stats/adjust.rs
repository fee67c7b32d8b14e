//! Many tests at once.

/// Holm's adjusted p values ("A Simple Sequentially Rejective Multiple Test Procedure", 1979), in the order of
/// the given ones. Calling those below a level significant errs in no more than that share of all families
/// of tests, however the tests depend on each other; and quantiles of the same runs do.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![0.0; p.len()];
    let mut least = 0.0_f64;
    for (rank, place) in order.into_iter().enumerate() {
        least = least.max((p[place] * (p.len() - rank) as f64).min(1.0));
        adjusted[place] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::holm;

    #[test]
    fn the_published_examples_are_reproduced() {
        // The fifteen p values of Benjamini and Hochberg 1995, section 3.2, where the step-wise procedures
        // reject the first three at 5 %; adjusted as by R's p.adjust(method = "holm").
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719,
            0.6528, 0.7590, 1.0,
        ];
        let known = [
            0.0015, 0.0056, 0.0247, 0.114, 0.2211, 0.278, 0.278, 0.278, 0.3213, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
        ];
        for (found, known) in holm(&p).into_iter().zip(known) {
            assert!((found - known).abs() < 1e-12, "{found} {known}");
        }
        assert_eq!(holm(&[0.04, 0.01]), [0.04, 0.02], "the order is that of the given values");
        assert!(holm(&[]).is_empty());
    }
}
