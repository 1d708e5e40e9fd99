//! Jobs of a deputy's thread, and the purposes of its replies.

use crate::deputy::closes::Token;
use room_protocol::message::{CallId, StandinId};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A job that a thread was given.
#[derive(Debug)]
pub struct Job {
    pub(super) packet: Vec<u8>,
    pub(super) fd: Option<OwnedFd>,
    pub(super) cancelled: bool,
    /// The call may be interrupted and made again.
    pub(super) made_again: bool,
    /// The job goes before the one that is under way.
    pub(super) urgent: bool,
    /// The purpose of its reply.
    pub purpose: Purpose,
}

/// The purpose of a reply.
#[derive(Debug)]
pub enum Purpose {
    /// A forwarded call; if it changed ids, they are read anew.
    Call {
        /// The number that it has.
        id: CallId,
        /// The number of the system call.
        nr: u32,
        /// The stand-in that it is about.
        standin: Option<StandinId>,
        /// The securebits that it sets, if it does.
        securebits: Option<u32>,
    },
    /// The deputy takes the descriptor of a stand-in that this call needs.
    Take {
        /// Number of the call.
        id: CallId,
        /// The stand-in of the descriptor.
        standin: StandinId,
        /// The call that is made.
        call: Box<room_protocol::message::Call>,
    },
    /// A new thread.
    Thread {
        /// The number of the request.
        id: CallId,
        /// Our end of the thread's channel.
        channel: OwnedFd,
    },
    /// A child process.
    Fork {
        /// The number of the request.
        id: CallId,
        /// Our end of its channel.
        channel: OwnedFd,
    },
    /// A stop of job control: the process goes on.
    Stop,
    /// The thread enters the directory of the next call.
    Enter,
    /// A descriptor is closed: calls of other threads wait for that.
    Close(Arc<Token>),
    /// Nobody waits for it.
    Nothing,
}

impl Job {
    /// A job whose packet is `packet`.
    pub fn new(packet: Vec<u8>, purpose: Purpose) -> Job {
        Job { packet, fd: None, cancelled: false, made_again: false, urgent: false, purpose }
    }

    /// Whether it may be interrupted, and made again later.
    pub fn made_again(self, made_again: bool) -> Job {
        Job { made_again, ..self }
    }

    /// As [`Job::new`], with a descriptor for the deputy.
    pub fn with_fd(packet: Vec<u8>, fd: OwnedFd, purpose: Purpose) -> Job {
        Job { fd: Some(fd), ..Job::new(packet, purpose) }
    }

    /// Tells whether the body waits for the result no more.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Tells whether the job is this forwarded call.
    pub fn is_call(&self, wanted: CallId) -> bool {
        matches!(self.purpose, Purpose::Call { id, .. } | Purpose::Take { id, .. } if id == wanted)
    }
}
