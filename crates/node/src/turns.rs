//! What is made at once is made a few at a time, in the order in which it was asked for.
//!
//! Each room costs this machine a process that begins, a handshake and all of its file systems. A
//! hundred that are made at once make each one so slow that all of them take longer than anybody
//! waits; one behind the other they take no longer in all. What takes long (a node that does not
//! answer) does not keep the others waiting: after a while the next one begins beside it.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What has been under way for so long does not keep the next one waiting.
const PATIENCE: Duration = Duration::from_secs(5);

/// A queue in which several are served at once.
pub(crate) struct Turns {
    at_once: usize,
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of the next one that comes.
    next: u64,
    /// Number of the next one that begins.
    first: u64,
    /// Those under way, and when each began.
    under_way: BTreeMap<u64, Instant>,
}

/// A turn; it ends when this is dropped.
pub(crate) struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Default for Turns {
    /// As many at once as this machine has processors, and one more, for each waits now and then.
    fn default() -> Turns {
        Turns::new(std::thread::available_parallelism().map_or(1, usize::from) + 1, PATIENCE)
    }
}

impl Turns {
    fn new(at_once: usize, patience: Duration) -> Turns {
        Turns { at_once, patience, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn, behind all who came before.
    pub(crate) fn take(&self) -> Turn<'_> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        loop {
            let now = Instant::now();
            let ages = state.under_way.values().map(|began| now.duration_since(*began));
            let mut young: Vec<Duration> = ages.filter(|age| *age < self.patience).collect();
            if number == state.first && young.len() < self.at_once {
                state.first += 1;
                state.under_way.insert(number, now);
                drop(state);
                self.changed.notify_all();
                return Turn { turns: self, number };
            }
            young.sort_unstable();
            let rest = young.last().map_or(self.patience, |oldest| self.patience - *oldest);
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.lock().under_way.remove(&self.number);
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    const LONG: Duration = Duration::from_secs(1000);

    /// Waits until so many have asked.
    fn asked(turns: &Turns, count: u64) {
        while turns.lock().next < count {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn turns_are_taken_in_order_and_not_too_many_at_once() {
        let turns = Arc::new(Turns::new(2, LONG));
        let held = (turns.take(), turns.take());
        let (began, order) = channel();
        let waiting: Vec<_> = (0..20)
            .map(|n| {
                let (waits, began) = (turns.clone(), began.clone());
                let thread = std::thread::spawn(move || {
                    let _turn = waits.take();
                    assert!(waits.lock().under_way.len() <= 2);
                    began.send(n).unwrap();
                });
                asked(&turns, n + 3);
                thread
            })
            .collect();
        assert!(order.try_recv().is_err(), "one began though two are under way");
        drop(held.0);
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(order.try_iter().collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        drop(held.1);
        assert!(turns.lock().under_way.is_empty());
    }

    #[test]
    fn what_takes_long_keeps_nobody_waiting() {
        let turns = Turns::new(1, Duration::from_millis(50));
        let _slow = turns.take();
        let _next = turns.take();
        let _last = turns.take();
        assert_eq!(turns.lock().under_way.len(), 3);
    }
}
