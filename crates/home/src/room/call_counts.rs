//! Questions to the room about the calls of processes, and its answers.

use room_protocol::message::{CALL_COUNTS_MAX, CallCount};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long the room may take to answer such a question.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Answers of the room that somebody waits for.
#[derive(Default)]
pub struct CallInquiries {
    /// By process; none until the answer comes.
    answers: Mutex<HashMap<i32, Option<Vec<CallCount>>>>,
    came: Condvar,
}

impl CallInquiries {
    /// Takes over the answer of the room. Throws away an answer for which nobody waits.
    pub fn hear(&self, pid: i32, mut rows: Vec<CallCount>) {
        rows.truncate(CALL_COUNTS_MAX);
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = answers.get_mut(&pid) {
            *answer = Some(rows);
            self.came.notify_all();
        }
    }

    /// Asks by `ask`, and waits for the answer about this process; `None` if it does not come.
    pub fn inquire(&self, pid: i32, ask: impl FnOnce()) -> Option<Vec<CallCount>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(pid, None);
        ask();
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |answers: &mut HashMap<i32, Option<Vec<CallCount>>>| answers.get(&pid).is_some_and(Option::is_none);
        let waited = self.came.wait_timeout_while(answers, PATIENCE, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.remove(&pid).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use room_protocol::message::CallPlace;

    #[test]
    fn an_answer_comes_to_its_asker_alone() {
        let inquiries = CallInquiries::default();
        let count = CallCount { nr: 39, place: CallPlace::Home, calls: 2, total_ns: 5, longest_ns: 4 };
        inquiries.hear(7, vec![count]);
        let rows = inquiries.inquire(7, || {
            inquiries.hear(8, Vec::new());
            inquiries.hear(7, vec![count]);
        });
        assert_eq!(rows, Some(vec![count]));
        assert!(inquiries.answers.lock().unwrap().is_empty());
    }
}
