//! Closes that deputies are told to make, and calls that wait for them.
//!
//! The last close of a file has the kernel tell others of it: a terminal hangs up, a pipe breaks.
//! Several deputies may have the file open, and the room says only that nobody there has it any
//! more. So each call waits until all of them have closed it, whatever deputy makes the call.

use room_protocol::message::{Call, CallId};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// So long a call waits at most: a deputy that was stopped meanwhile closes nothing.
const WITHIN: Duration = Duration::from_millis(100);
/// How soon it is looked again whether a call still has to wait.
pub const LOOK: Duration = Duration::from_millis(1);

/// The job of closing something has this until it is done, or given up.
#[derive(Debug)]
pub struct Token(());

/// A close that a thread of a deputy is to make.
#[derive(Debug)]
struct Close {
    tid: i32,
    since: Instant,
    token: Weak<Token>,
}

/// A call of a body's thread, by its numbers at home.
#[derive(Debug)]
pub struct BodyCall {
    /// Number of the call.
    pub id: CallId,
    /// PID of the process.
    pub pid: i32,
    /// TID of the thread.
    pub tid: i32,
    /// The call that is made.
    pub call: Call,
}

/// Closes under way, and the calls that wait for them.
#[derive(Debug, Default)]
pub struct Closes {
    begun: Vec<Close>,
    delayed: Vec<BodyCall>,
}

impl Closes {
    /// Notes that thread `tid` is about to close something; its job is to have the token.
    pub fn begin(&mut self, tid: i32) -> Arc<Token> {
        let token = Arc::new(Token(()));
        self.begun.push(Close { tid, since: Instant::now(), token: Arc::downgrade(&token) });
        token
    }

    /// Tells whether a call of thread `tid` must wait. A thread does one job after the other, so
    /// its own closes come first in any case.
    pub fn delays(&mut self, tid: i32) -> bool {
        self.begun.retain(|close| close.token.strong_count() > 0 && close.since.elapsed() < WITHIN);
        self.begun.iter().any(|close| close.tid != tid)
    }

    /// Keeps a call that must wait.
    pub fn delay(&mut self, call: BodyCall) {
        self.delayed.push(call);
    }

    /// Tells whether calls wait.
    pub fn is_awaited(&self) -> bool {
        !self.delayed.is_empty()
    }

    /// Takes the calls that need not wait any more.
    pub fn take_due(&mut self) -> Vec<BodyCall> {
        let (delayed, due) = std::mem::take(&mut self.delayed).into_iter().partition(|call| self.delays(call.tid));
        self.delayed = delayed;
        due
    }

    /// Takes a call that its thread does not wait for any more.
    pub fn cancel(&mut self, id: CallId) -> Option<BodyCall> {
        let at = self.delayed.iter().position(|call| call.id == id)?;
        Some(self.delayed.remove(at))
    }

    /// Takes the calls of a process that is no deputy any more.
    pub fn forget(&mut self, pid: i32) -> Vec<BodyCall> {
        self.delayed.extract_if(.., |call| call.pid == pid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(tid: i32) -> BodyCall {
        BodyCall { id: CallId(tid as u64), pid: tid, tid, call: Call::new(libc::SYS_kill, [0; 6]) }
    }

    fn due(closes: &mut Closes) -> Vec<i32> {
        closes.take_due().into_iter().map(|call| call.tid).collect()
    }

    /// Failed before: the hangup of a terminal that two deputies had open came after the next
    /// signal.
    #[test]
    fn a_call_waits_for_the_closes_of_others() {
        let mut closes = Closes::default();
        assert!(!closes.delays(1));
        let (first, second) = (closes.begin(1), closes.begin(2));
        assert!(closes.delays(1) && closes.delays(3));
        [1, 3].into_iter().for_each(|tid| closes.delay(call(tid)));
        assert!(due(&mut closes).is_empty());
        drop(second);
        assert!(!closes.delays(1));
        assert_eq!(due(&mut closes), [1]);
        drop(first);
        assert_eq!(due(&mut closes), [3]);
        assert!(!closes.is_awaited());
    }

    #[test]
    fn a_close_that_does_not_come_is_not_waited_for() {
        let mut closes = Closes::default();
        let _stopped = closes.begin(1);
        let begun = Instant::now();
        while closes.delays(2) {
            assert!(begun.elapsed() < Duration::from_secs(30));
            std::thread::sleep(LOOK);
        }
        assert!(begun.elapsed() >= WITHIN);
    }

    #[test]
    fn calls_that_nobody_waits_for_are_given_back() {
        let mut closes = Closes::default();
        let token = closes.begin(1);
        [2, 3, 4].into_iter().for_each(|tid| closes.delay(call(tid)));
        assert_eq!(closes.cancel(CallId(3)).map(|call| call.tid), Some(3));
        assert!(closes.cancel(CallId(3)).is_none());
        assert_eq!(closes.forget(2).len(), 1);
        drop(token);
        assert_eq!(due(&mut closes), [4]);
    }
}
