//! Threads whose stop request became obsolete before it took effect.

use checkpoint::Slept;
use os::ptrace::HostTid;
use std::time::Duration;

/// Those that may still stop, and for how long each had been asleep.
#[derive(Debug, Default)]
pub struct StaleStops {
    pub threads: Slept,
}

impl StaleStops {
    /// A thread ended, or stops for something else.
    pub fn forget_thread(&mut self, host: HostTid) {
        self.threads.remove(&host.0);
    }

    /// These were asked, and nobody wants it any more.
    pub fn add(&mut self, threads: impl IntoIterator<Item = (i32, Duration)>) {
        self.threads.extend(threads);
    }
}
