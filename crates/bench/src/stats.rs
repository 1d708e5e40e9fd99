//! Figures from samples.

/// The middle of the samples, and the least of them.
pub fn median_and_least(samples: &[f64]) -> (f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let least = sorted.first().copied().unwrap_or(f64::NAN);
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
    (middle, least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_odd_number() {
        assert_eq!(median_and_least(&[3.0, 1.0, 2.0]), (2.0, 1.0));
        assert!(median_and_least(&[]).0.is_nan());
    }
}
