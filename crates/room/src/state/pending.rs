//! Calls that home was asked for, and what is to be done with its answers.

use crate::state::calls::after::After;
use crate::state::files::standins::requests::StandinRequest;
use crate::state::guests::Waiting;
use os::ptrace::HostTid;
use room_protocol::message::{CallId, StandinId};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

/// The work that is due when home has answered.
#[derive(Debug)]
pub enum Pending {
    /// Answer a guest's call that waits at its listener.
    Notified {
        /// The path that is looked at.
        waiting: Waiting,
        /// The step that follows from the result.
        after: After,
        /// The call consumes something (a child's end, a signal sent): its result must not get
        /// lost.
        exact: bool,
        /// Home has been asked. Before that it must not be told that the caller was interrupted: it
        /// would not know of what.
        asked: bool,
    },
    /// Nothing: no guest waits for it.
    Unasked,
    /// Home says whether this stand-in may be a stream.
    MayStream(StandinId),
    /// Answer a request for a stand-in.
    Standin(StandinRequest),
    /// Answer a request for something of /proc.
    Proc {
        /// The process that asks; 0 for none.
        pid: i32,
        /// The request that is answered.
        unique: u64,
    },
    /// The number of something new that the tracer waits for.
    Birth {
        /// The thread that makes it.
        host: HostTid,
    },
    /// Home has answered; the result is the tracer's to give.
    Missed {
        /// Where it was asked.
        waiting: Waiting,
        /// The result of the call.
        result: i64,
    },
    /// The caller was interrupted at its listener, and is held by the tracer until it is known
    /// whether the call was made.
    Held {
        /// TID of the thread on this node.
        host: HostTid,
        /// The step that follows from the result.
        after: After,
        /// As above: who asks home then also cancels.
        asked: bool,
    },
}

/// The result of a call that a guest's memory or descriptors are to have part of.
#[derive(Debug)]
pub struct Written {
    /// The id of the call.
    pub id: CallId,
    /// The result of the call.
    pub result: i64,
    /// The bytes that it wrote.
    pub out: Vec<u8>,
}

/// A queue of them.
#[derive(Debug, Default)]
pub struct WrittenQueue {
    pub queue: Mutex<VecDeque<Written>>,
    pub came: Condvar,
}

/// Where a call is whose caller was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// Home has nothing to do with it.
    NotHome,
    /// Home is running it, or is about to be asked.
    Running {
        /// The id of the call.
        id: CallId,
        /// It was asked, and is to be told.
        asked: bool,
    },
    /// Home has run it.
    Done(i64),
}

impl WrittenQueue {
    /// Puts one at the end.
    pub fn give(&self, written: Written) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(written);
        self.came.notify_one();
    }

    /// The next one, if there is one.
    #[cfg(any(test, feature = "fuzz"))]
    pub fn take_now(&self) -> Option<Written> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Waits for the next one.
    pub fn take(&self) -> Option<Written> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while queue.is_empty() {
            queue = self.came.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        queue.pop_front()
    }
}

/// Whatever handler runs, the call is made again (linux/errno.h).
pub const ERESTARTNOINTR: i64 = -513;
