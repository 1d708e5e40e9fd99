//! Spinning before a receive blocks (IMPLICIT), and its bound on a processor that others want.

/// The next step of a task at a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The message is there: take it.
    Receive,
    /// Poll once more.
    Spin,
    /// Give the processor up until the message comes.
    Block,
}

/// One receive of a task that spins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spin {
    until_us: u64,
}

impl Spin {
    /// Begins a receive. `spin_us` is the time to spin; 0 blocks at once.
    pub fn begin(now_us: u64, spin_us: u64) -> Spin {
        Spin { until_us: now_us.saturating_add(spin_us) }
    }

    /// Gives the moment at which the task blocks.
    pub fn until_us(self) -> u64 {
        self.until_us
    }

    /// Decides what the task does now. `has_message` is the result of the poll.
    pub fn poll(self, now_us: u64, has_message: bool) -> Patience {
        match (has_message, now_us < self.until_us) {
            (true, _) => Patience::Receive,
            (false, true) => Patience::Spin,
            (false, false) => Patience::Block,
        }
    }
}

/// The time to spin on a processor that local work may want.
///
/// A task that spins uses up its share of the processor, and then waits for longer than spinning
/// saved. A task whose processor was taken from it since its last receive therefore does not spin.
#[derive(Clone, Copy, Debug)]
pub struct SpinLimit {
    spin_us: u64,
    switches: Option<u64>,
}

impl SpinLimit {
    /// The time to spin if nothing else is said, microseconds: about a switch between tasks.
    pub const DEFAULT_US: u64 = 10;
    /// The longest time to spin, microseconds.
    pub const MOST_US: u64 = 10_000;

    /// Starts with this time to spin, which is cut to [`MOST_US`](Self::MOST_US).
    pub fn new(spin_us: u64) -> SpinLimit {
        SpinLimit { spin_us: spin_us.min(Self::MOST_US), switches: None }
    }

    /// Gives the time to spin at a receive. `involuntary_switches` is the task's own count so far
    /// (`ru_nivcsw` of getrusage(2)).
    pub fn spin_us(&mut self, involuntary_switches: u64) -> u64 {
        let before = self.switches.replace(involuntary_switches);
        if before.is_some_and(|before| involuntary_switches > before) { 0 } else { self.spin_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receive_spins_and_then_blocks() {
        let spin = Spin::begin(100, 10);
        assert_eq!(spin.until_us(), 110);
        assert_eq!(spin.poll(100, false), Patience::Spin);
        assert_eq!(spin.poll(109, false), Patience::Spin);
        assert_eq!(spin.poll(110, false), Patience::Block);
        assert_eq!(spin.poll(5000, true), Patience::Receive);
        assert_eq!(Spin::begin(7, 0).poll(7, false), Patience::Block);
        assert_eq!(Spin::begin(u64::MAX, u64::MAX).poll(u64::MAX, false), Patience::Block);
    }

    #[test]
    fn a_task_whose_processor_was_taken_does_not_spin() {
        let mut limit = SpinLimit::new(SpinLimit::DEFAULT_US);
        assert_eq!([5, 5, 6, 6, 9, 3, 3].map(|count| limit.spin_us(count)), [10, 10, 0, 10, 0, 10, 10]);
        assert_eq!(SpinLimit::new(u64::MAX).spin_us(0), SpinLimit::MOST_US);
    }
}
