//! Random numbers from a seed: the same seed draws the same numbers.

/// A sequence of numbers that follows from its seed alone (splitmix64: Steele, Lea, Flood 2014).
/// Not for secrets.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Starts the sequence of this seed.
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    /// Draws the next number, all 64 bits of it.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `bound`; 0 if the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.bits()) * bound as u128;
        (wide >> 64) as usize
    }

    /// Draws a number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws true once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_all_values_come() {
        let take = |seed| {
            let mut draw = Draw::new(seed);
            (0..600).map(|_| draw.below(6)).collect::<Vec<_>>()
        };
        assert_eq!(take(7), take(7));
        assert_ne!(take(7), take(8));
        for side in 0..6 {
            let count = take(7).iter().filter(|n| **n == side).count();
            assert!((60..140).contains(&count), "{side} came {count} times of 600");
        }
        assert_eq!(Draw::new(1).below(0), 0);
        assert!((0..100).all(|seed| (0.0..1.0).contains(&Draw::new(seed).unit())));
    }
}
