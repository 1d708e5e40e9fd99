//! CPU time that is forgotten with age.

/// CPU time of a task, of which half is forgotten after each half-life. Sobalvarro's rule compares
/// it: a task that computed an hour ago is no worse than others now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DecayedUse {
    used_us: f64,
    at_us: u64,
    half_life_us: u64,
}

impl DecayedUse {
    /// The half-life if nothing else is said, microseconds.
    pub const HALF_LIFE_US: u64 = 1_000_000;

    /// Starts at none. A half-life of 0 forgets nothing.
    pub fn new(half_life_us: u64, now_us: u64) -> DecayedUse {
        DecayedUse { used_us: 0.0, at_us: now_us, half_life_us }
    }

    /// Adds CPU time that was used since the last reading, microseconds. A clock that was set back
    /// makes nothing older.
    pub fn add(&mut self, ran_us: u64, now_us: u64) {
        self.used_us = self.value(now_us) + ran_us as f64;
        self.at_us = self.at_us.max(now_us);
    }

    /// Gives what is remembered, microseconds.
    pub fn value_us(&self, now_us: u64) -> u64 {
        self.value(now_us) as u64
    }

    fn value(&self, now_us: u64) -> f64 {
        let age_us = now_us.saturating_sub(self.at_us) as f64;
        if self.half_life_us == 0 { self.used_us } else { self.used_us * (-age_us / self.half_life_us as f64).exp2() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_is_forgotten_after_a_half_life() {
        let mut cpu = DecayedUse::new(1000, 0);
        cpu.add(800, 0);
        assert_eq!((cpu.value_us(0), cpu.value_us(1000), cpu.value_us(3000)), (800, 400, 100));
        cpu.add(100, 1000);
        assert_eq!(cpu.value_us(1000), 500);
        cpu.add(0, 500);
        assert_eq!(cpu.value_us(1000), 500);
        assert_eq!(cpu.value_us(u64::MAX), 0);
    }

    #[test]
    fn extremes_do_no_harm() {
        let mut cpu = DecayedUse::new(0, u64::MAX);
        cpu.add(u64::MAX, 0);
        cpu.add(u64::MAX, u64::MAX);
        assert_eq!(cpu.value_us(5), u64::MAX);
    }
}
