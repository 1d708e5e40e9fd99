//! Requests of the room's kernel that home answers.

use os::ptrace::HostTid;
use room_protocol::message::StandinId;

/// A request of the kernel that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandinRequest {
    /// The process that waits.
    pub pid: i32,
    /// Its thread, if a signal may interrupt that.
    pub host: Option<HostTid>,
    /// The request that is answered.
    pub unique: u64,
    /// The kind of the request.
    pub what: StandinRequestKind,
}

/// Kind of request that home answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandinRequestKind {
    /// The request is READ.
    Read,
    /// The request is WRITE.
    Write,
    /// POLL of this stand-in.
    Poll(StandinId),
    /// The first state of this stand-in, whose POLL was answered before.
    Watch(StandinId),
    /// A lock is set, or asked for.
    Lock {
        /// Whether an answer is asked for.
        asks: bool,
    },
    /// About /dev: [`crate::files::devices`] knows.
    Device,
    /// About a regular file: [`files`] knows.
    File,
}
