//! Calls that could not pass their descriptors to home from here.

use os::ptrace::HostTid;
use room_protocol::Refusal;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// How often a call is made again because of something that stood in the way for a moment; then its
/// process goes home for it.
pub const TRIES_MAX: u32 = 100;

/// Calls that could not pass their descriptors from here, by thread: how often they were made
/// again.
#[derive(Debug, Default)]
pub struct Unpassed(Mutex<HashMap<HostTid, u32>>);

impl Unpassed {
    pub fn change<T>(&self, change: impl FnOnce(&mut HashMap<HostTid, u32>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this thread's process must go home for what it passes.
    pub fn must_go(&self, host: HostTid) -> bool {
        self.change(|all| all.get(&host).is_some_and(|tries| *tries >= TRIES_MAX))
    }

    /// The thread has passed something, or goes home, or has ended.
    pub fn forget(&self, host: HostTid) {
        self.change(|all| all.remove(&host));
    }

    pub fn add(&self, host: HostTid, why: &Refusal) {
        self.change(|all| {
            let tries = all.entry(host).or_insert(0);
            *tries = if why.retryable { *tries + 1 } else { TRIES_MAX };
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_for_a_moment_is_tried_again() {
        let (unpassed, host) = (Unpassed::default(), HostTid(7));
        for _ in 1..TRIES_MAX {
            unpassed.add(host, &Refusal { why: String::new(), retryable: true });
        }
        assert!(!unpassed.must_go(host));
        unpassed.add(host, &Refusal { why: String::new(), retryable: true });
        assert!(unpassed.must_go(host));
        unpassed.forget(host);
        unpassed.add(host, &"for good".into());
        assert!(unpassed.must_go(host));
    }
}
