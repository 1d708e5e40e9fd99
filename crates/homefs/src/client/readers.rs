//! Several threads read a mount's device, so what one has read may be sent on behind what another read later. For FIFOs that would show: a write that overtakes
//! the end of the last reader finds it there. A lock that the end of an open file frees is found held. So who has read a write to a FIFO,
//! or a request for a lock, waits until no other holds an older request.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Threads that read a device: while one forwards, the other reads.
pub(super) const READERS: usize = 2;

/// In the place of a request's number: none.
const NONE: u64 = u64::MAX;
/// A reader that has something older in hand for longer than that is stuck, and waits for nobody.
const AT_MOST: Duration = Duration::from_millis(100);

/// The readers of one device.
#[derive(Debug)]
pub(super) struct Readers([Reader; READERS]);

#[derive(Debug)]
struct Reader {
    /// The thread; 0 before it reads.
    tid: AtomicI32,
    /// Number of the request that it has read and not yet sent. The kernel's numbers ascend.
    in_hand: AtomicU64,
}

impl Default for Readers {
    fn default() -> Readers {
        Readers(std::array::from_fn(|_| Reader { tid: AtomicI32::new(0), in_hand: AtomicU64::new(NONE) }))
    }
}

impl Readers {
    /// The calling thread is this reader.
    pub(super) fn begin(&self, reader: usize) {
        self.0[reader].tid.store(crate::sys::gettid(), Ordering::Release);
    }

    /// The reader has read this request.
    pub(super) fn takes(&self, reader: usize, unique: u64) {
        self.0[reader].in_hand.store(unique, Ordering::Release);
    }

    /// It has sent or answered it.
    pub(super) fn has_sent(&self, reader: usize) {
        self.0[reader].in_hand.store(NONE, Ordering::Release);
    }

    /// Waits until no other reader holds a request older than this one.
    pub(super) fn await_older(&self, reader: usize, unique: u64) {
        let start = Instant::now();
        for (_, other) in self.0.iter().enumerate().filter(|(at, _)| *at != reader) {
            while other.may_hold_older(unique) && start.elapsed() < AT_MOST {
                std::thread::yield_now();
            }
        }
    }
}

impl Reader {
    /// It does, or has returned from its read and not yet said what it read.
    fn may_hold_older(&self, unique: u64) -> bool {
        match self.in_hand.load(Ordering::Acquire) {
            NONE => {
                let tid = self.tid.load(Ordering::Acquire);
                let line = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).unwrap_or_default();
                let reads = line.split(' ').next().is_some_and(|number| number == libc::SYS_read.to_string());
                tid != 0 && !reads && self.in_hand.load(Ordering::Acquire) == NONE
            }
            held => held < unique,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_older_is_waited_for() {
        let readers = Readers::default();
        readers.takes(0, 10);
        readers.takes(1, 12);
        assert!(readers.0[0].may_hold_older(12) && !readers.0[1].may_hold_older(10));
        std::thread::scope(|scope| {
            scope.spawn(|| readers.await_older(1, 12));
            readers.has_sent(0);
            readers.takes(0, 14);
        });
        readers.has_sent(0);
        let ends = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                readers.begin(0);
                while !ends.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            // It runs, in no read: what it may have read is not known.
            while !readers.0[0].may_hold_older(20) {
                std::thread::yield_now();
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
