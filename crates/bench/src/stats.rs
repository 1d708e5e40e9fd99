//! Statistics of samples.

/// Gives the median and the least of the samples.
pub fn median_and_least(samples: &[f64]) -> (f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let least = sorted.first().copied().unwrap_or(f64::NAN);
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
    (middle, least)
}

/// Sorts samples in ascending order.
pub fn sorted(samples: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Gives the least sample that this percentage of all samples does not exceed.
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let all = sorted([3.0, 1.0, 2.0, 4.0].into_iter());
        assert_eq!([0, 50, 75, 99].map(|p| percentile(&all, p)), [1.0, 2.0, 3.0, 4.0]);
        assert!(percentile(&[], 50).is_nan());
    }

    #[test]
    fn of_an_odd_number() {
        assert_eq!(median_and_least(&[3.0, 1.0, 2.0]), (2.0, 1.0));
        assert!(median_and_least(&[]).0.is_nan());
    }
}
