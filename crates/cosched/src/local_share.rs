//! The share of a processor that local work keeps, whatever messages arrive.

/// Why a share was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the local share is from 1 to 999 thousandths, not {0}")]
pub struct LocalShareError(u32);

/// Whether a distributed task is preferred to local work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// A distributed task is.
    Distributed,
    /// None is: the kernel shares the processor as it does without coscheduling.
    None,
}

/// Bounds the time for which distributed tasks are preferred.
///
/// While a task is preferred, local work is owed its share of that time. While none is, the debt
/// falls by the rest. A task may be preferred until the debt reaches the share of one window, and
/// again when half of it is paid. In the long run distributed tasks are thus preferred for at most
/// the rest of the time.
#[derive(Clone, Copy, Debug)]
pub struct LocalShare {
    /// Thousandths of the processor that local work keeps.
    share: u64,
    window_us: u64,
    /// Thousandths of microseconds.
    debt: u64,
    at_us: u64,
    preferred: Preference,
    exhausted: bool,
}

impl LocalShare {
    /// The local share if nothing else is said, thousandths: as EXPLICIT leaves.
    pub const SHARE: u32 = 100;
    /// The window over which the share holds if nothing else is said, microseconds.
    pub const WINDOW_US: u64 = 1_000_000;

    /// Starts without debt. `window_us` is cut to 1 ms at least and an hour at most.
    ///
    /// # Errors
    /// The share is 0, or leaves nothing to distributed tasks.
    pub fn new(share: u32, window_us: u64, now_us: u64) -> Result<LocalShare, LocalShareError> {
        if !(1..=999).contains(&share) {
            return Err(LocalShareError(share));
        }
        let window_us = window_us.clamp(1_000, 3_600_000_000);
        let preferred = Preference::None;
        Ok(LocalShare { share: share.into(), window_us, debt: 0, at_us: now_us, preferred, exhausted: false })
    }

    /// Notes which work is preferred from now on. A clock that was set back changes no debt.
    pub fn note(&mut self, preferred: Preference, now_us: u64) {
        let elapsed_us = now_us.saturating_sub(self.at_us);
        self.at_us = self.at_us.max(now_us);
        self.debt = match self.preferred {
            Preference::Distributed => self.debt.saturating_add(elapsed_us.saturating_mul(self.share)),
            Preference::None => self.debt.saturating_sub(elapsed_us.saturating_mul(1000 - self.share)),
        };
        // A late note owes no more than a window: local work is not paid for a clock that jumped.
        self.debt = self.debt.min(self.most_debt());
        if self.debt >= self.most_debt() {
            self.exhausted = true;
        } else if self.debt <= self.most_debt() / 2 {
            self.exhausted = false;
        }
        self.preferred = preferred;
    }

    /// Tells whether a distributed task may be preferred, as of the last note.
    pub fn allows(&self) -> bool {
        !self.exhausted
    }

    /// Gives the moment at which the answer of [`allows`](Self::allows) changes if nothing else
    /// does; `None` if it does not change.
    pub fn changes_us(&self) -> Option<u64> {
        let wait_us = match self.preferred {
            Preference::Distributed if !self.exhausted => (self.most_debt() - self.debt).div_ceil(self.share),
            Preference::None if self.exhausted => {
                self.debt.saturating_sub(self.most_debt() / 2).div_ceil(1000 - self.share)
            }
            _ => return None,
        };
        Some(self.at_us.saturating_add(wait_us))
    }

    fn most_debt(&self) -> u64 {
        self.window_us * self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prefers distributed tasks whenever that is allowed. Gives the part of the time, thousandths.
    fn greedy(share: u32, step_us: u64) -> u64 {
        let mut bound = LocalShare::new(share, 100_000, 0).unwrap();
        let (mut now_us, mut preferred_us) = (0, 0);
        while now_us < 100_000_000 {
            let preferred = if bound.allows() { Preference::Distributed } else { Preference::None };
            bound.note(preferred, now_us);
            preferred_us += if preferred == Preference::Distributed { step_us } else { 0 };
            now_us += step_us;
            bound.note(preferred, now_us);
        }
        preferred_us * 1000 / now_us
    }

    #[test]
    fn local_work_keeps_its_share() {
        for share in [1, 50, 100, 500, 900, 999] {
            for step_us in [10, 1_000] {
                let preferred = greedy(share, step_us);
                let most = u64::from(1000 - share);
                assert!(preferred <= most + 5 && preferred + 15 >= most, "{share}, {step_us}: {preferred}");
            }
        }
    }

    #[test]
    fn the_moment_of_change_is_known() {
        let mut bound = LocalShare::new(100, 1_000_000, 0).unwrap();
        assert_eq!(bound.changes_us(), None);
        bound.note(Preference::Distributed, 0);
        assert_eq!(bound.changes_us(), Some(1_000_000));
        bound.note(Preference::Distributed, 999_999);
        assert!(bound.allows());
        bound.note(Preference::None, 1_000_000);
        assert!(!bound.allows());
        let free_us = bound.changes_us().unwrap();
        bound.note(Preference::None, free_us - 1);
        assert!(!bound.allows());
        bound.note(Preference::None, free_us);
        assert!(bound.allows() && bound.changes_us().is_none());
    }

    #[test]
    fn absurd_input_is_refused_or_ends() {
        for share in [0, 1000, u32::MAX] {
            assert_eq!(LocalShare::new(share, 1, 0).unwrap_err(), LocalShareError(share));
        }
        for window_us in [0, u64::MAX] {
            let mut bound = LocalShare::new(999, window_us, 7).unwrap();
            for now_us in [u64::MAX, 0, u64::MAX, 3] {
                bound.note(Preference::Distributed, now_us);
                bound.note(Preference::None, now_us);
                let _ = bound.changes_us();
            }
        }
    }
}
