//! Classes of numbers for quantiles: the numbers of a class differ by an eighth at most.

/// Classes for each power of two.
const PARTS: u64 = 8;

/// Gives the class of a number: below 8 the number itself.
pub fn class(number: u64) -> u64 {
    match number.checked_ilog2() {
        Some(power) if number >= PARTS => {
            let shift = power - PARTS.ilog2();
            u64::from(shift) * PARTS + (number >> shift)
        }
        _ => number,
    }
}

/// Gives the largest number of a class.
pub fn upper(class: u64) -> u64 {
    if class < 2 * PARTS {
        return class;
    }
    let shift = (class / PARTS - 1) as u32;
    let lead = u128::from(class % PARTS + PARTS);
    u64::try_from(((lead + 1) << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_narrow() {
        for number in [0, 1, 7, 8, 15, 16, 17, 1000, 46_137_344, u64::MAX / 2, u64::MAX] {
            let upper = upper(class(number));
            assert!(upper >= number && upper - number <= number / 8, "{number} {upper}");
        }
    }
}
