//! What a node really gives: its word is corrected by what those get that run there.

/// What a node gives of what it says to have, as seen by those who have processes there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Given {
    /// How long they wanted to run lately, and for how long they did, if the node has what it says, milliseconds.
    due_ms: f64,
    got_ms: f64,
}

/// Time in which 63% of what was seen is forgotten, milliseconds: while something runs there, ...
const SEEN_MS: f64 = 3000.0;
/// ... and if nothing does: only who tries again learns better.
const FORGOTTEN_MS: f64 = 30_000.0;
/// A node's word is as good as so much of one process' time seen, milliseconds.
const WORD_MS: f64 = 1500.0;
/// Less than this part is no noise: loads are told high, quotas go by periods.
const WORD_BROKEN: f64 = 0.5;

impl Given {
    /// Over `elapsed_ms` processes wanted to run for `due_ms`, and got `got_ms`: CPU time over the share of a core that the node's word gives each.
    pub fn sample(&mut self, elapsed_ms: f64, due_ms: f64, got_ms: f64) {
        let within_ms = if due_ms > 0.0 { SEEN_MS } else { FORGOTTEN_MS };
        let kept = (-elapsed_ms.max(0.0) / within_ms).exp();
        self.due_ms = self.due_ms * kept + due_ms.max(0.0);
        self.got_ms = self.got_ms * kept + got_ms.max(0.0);
    }

    /// Nothing is held against the node.
    pub fn is_believed(&self) -> bool {
        self.part() > 0.95
    }

    /// Cores that it has, of so many that it says to have, thousandths.
    pub fn of_cores_milli(&self, told_milli: u32) -> u32 {
        match self.part() < WORD_BROKEN {
            true => (f64::from(told_milli) * (self.got_ms / self.due_ms).min(1.0)) as u32,
            false => told_milli,
        }
    }

    fn part(&self) -> f64 {
        (self.got_ms + WORD_MS) / (self.due_ms + WORD_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_gives_a_tenth_has_a_tenth_until_it_is_forgotten() {
        let mut given = Given::default();
        for _ in 0..4 {
            given.sample(1000.0, 1000.0, 80.0);
        }
        assert!((50..400).contains(&given.of_cores_milli(1000)), "{given:?}");
        for _ in 0..120 {
            given.sample(1000.0, 0.0, 0.0);
        }
        assert_eq!(given.of_cores_milli(1000), 1000);
    }

    #[test]
    fn noise_and_more_than_was_due_change_nothing() {
        let mut given = Given::default();
        for got_ms in [0.0, 1300.0, 900.0, 650.0, 2000.0, 0.0, 900.0, 1000.0, 700.0, 600.0] {
            given.sample(1000.0, 1000.0, got_ms);
            assert_eq!(given.of_cores_milli(2000), 2000, "{given:?}");
        }
        given.sample(1000.0, 0.0, f64::INFINITY);
        assert_eq!(given.of_cores_milli(2000), 2000);
    }
}
