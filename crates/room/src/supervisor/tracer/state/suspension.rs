//! Stops of threads that are handled later.

use os::ptrace::{Event, HostTid, UsageBytes};

/// A stop of a thread that the tracer handles later.
pub struct Kept {
    /// TID of the thread on this node.
    pub tid: HostTid,
    /// The stop that the tracer has seen.
    pub event: Event,
    /// The thread's use of the processor.
    pub usage: UsageBytes,
}
