//! A simulated task.

/// The next state of a task at the end of a stretch of computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Milestone {
    /// A point at which the task receives a message.
    ReceivePoint,
    /// The end of its computation.
    End,
}

/// A task: how long it computes, and the messages that it receives meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub created_us: u64,
    /// Time that the task computes in all.
    pub service_us: u64,
    /// Time that it has computed.
    pub served_us: u64,
    /// CPU time that it has had, with spinning.
    pub cpu_us: u64,
    /// Number of messages that it receives; also the number of its receive points.
    pub messages: u32,
    /// Messages that the task has taken.
    pub taken: u32,
    /// Receive points that it has passed.
    pub passed: u32,
    pub is_distributed: bool,
    /// The task is in the order list.
    pub is_ready: bool,
}

impl Task {
    /// Gives the time to compute until the next milestone, and what it is.
    pub fn next_milestone(&self) -> (u64, Milestone) {
        if self.passed >= self.messages {
            return (self.service_us.saturating_sub(self.served_us), Milestone::End);
        }
        // Evenly spaced: `messages` points make `messages + 1` parts.
        let part = u128::from(self.service_us) * u128::from(self.passed + 1) / u128::from(self.messages + 1);
        ((part as u64).saturating_sub(self.served_us), Milestone::ReceivePoint)
    }

    /// Passes a receive point if a message that was taken is left for it.
    pub fn pass(&mut self) -> bool {
        let passes = self.taken > self.passed;
        self.passed += u32::from(passes);
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receive_points_are_evenly_spaced() {
        let mut task = Task {
            created_us: 0,
            service_us: 900,
            served_us: 0,
            cpu_us: 0,
            messages: 2,
            taken: 2,
            passed: 0,
            is_distributed: true,
            is_ready: true,
        };
        assert_eq!(task.next_milestone(), (300, Milestone::ReceivePoint));
        task.served_us = 300;
        assert!(task.pass());
        assert_eq!(task.next_milestone(), (300, Milestone::ReceivePoint));
        assert!(task.pass() && !task.pass());
        assert_eq!(task.next_milestone(), (600, Milestone::End));
    }
}
