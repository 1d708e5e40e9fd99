//! The speed of a core, from a short calibration that runs once.

/// Steps of [`work`] that the reference core makes per second. Each step waits for the one before
/// it (a shift, an exclusive or and a multiplication: 5 cycles on current cores), so a core at 3
/// GHz is about the reference.
const REFERENCE_STEPS_PER_S: u64 = 600_000_000;

/// Makes `steps` dependent steps. The result keeps the compiler from removing them.
#[inline(never)]
pub fn work(steps: u64) -> u64 {
    let mut state = steps | 1;
    for _ in 0..steps {
        // The shift keeps the compiler from merging steps.
        state = (state ^ (state >> 32)).wrapping_mul(0x5851_f42d_4c95_7f2d);
    }
    state
}

/// Computes the speed of a core that made `steps` in `cpu_ns` of CPU time, thousandths of the
/// reference.
pub fn speed_milli(steps: u64, cpu_ns: u64) -> u32 {
    let per_s = u128::from(steps) * 1_000_000_000 / u128::from(cpu_ns.max(1));
    u32::try_from(per_s * 1000 / u128::from(REFERENCE_STEPS_PER_S)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_time_is_half_the_speed() {
        assert_eq!(speed_milli(600_000_000, 1_000_000_000), 1000);
        assert_eq!(speed_milli(600_000, 2_000_000), 500);
        assert_eq!(speed_milli(u64::MAX, 0), u32::MAX);
        assert_ne!(work(10), work(11));
    }
}
