//! The threads that read a mount's device. One may forward a request after a request that another
//! thread read later. For FIFOs that would be visible: a write that overtakes the close of the last
//! reader still finds the reader. A lock that the close of an open file frees would be found held.
//! So a thread that has read a write to a FIFO, or a request for a lock, waits until no other
//! thread holds an older request.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of threads that read a device: one reads while the other forwards.
pub(super) const READERS: usize = 2;

/// Stands for no request in place of its number.
const NONE: u64 = u64::MAX;
/// The longest time to wait. A reader that holds an older request for longer is stuck, and waits
/// for nobody.
const AT_MOST: Duration = Duration::from_millis(100);

/// The readers of one device.
#[derive(Debug)]
pub(super) struct Readers([Reader; READERS]);

#[derive(Debug)]
struct Reader {
    /// Id of the thread; 0 before it reads.
    tid: AtomicI32,
    /// Number of the request that the thread has read and not sent yet. The kernel's numbers
    /// ascend.
    in_hand: AtomicU64,
}

impl Default for Readers {
    fn default() -> Readers {
        Readers(std::array::from_fn(|_| Reader { tid: AtomicI32::new(0), in_hand: AtomicU64::new(NONE) }))
    }
}

impl Readers {
    /// Registers the calling thread as this reader.
    pub(super) fn begin(&self, reader: usize) {
        self.0[reader].tid.store(crate::sys::gettid(), Ordering::Release);
    }

    /// Notes that the reader has read this request.
    pub(super) fn takes(&self, reader: usize, unique: u64) {
        self.0[reader].in_hand.store(unique, Ordering::Release);
    }

    /// Notes that the reader has sent or answered its request.
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
    /// Tells whether the reader may hold an older request: it does, or it has returned from its
    /// read and not noted the request yet.
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
            // The thread runs, outside of a read: it may have read a request.
            while !readers.0[0].may_hold_older(20) {
                std::thread::yield_now();
            }
            ends.store(true, Ordering::Relaxed);
        });
    }
}
