//! Why a process stands still for itself: open files that it has change their kind.

use crate::supervisor::sharers::common_files::{Commons, Sought};
use os::ptrace::HostTid;
use room_protocol::Refusal;
use room_protocol::message::StandinId;
use std::collections::BTreeSet;

/// An exchange of open files, under the hands of those that have them.
#[derive(Clone, Debug)]
pub enum Passing {
    /// A call passes descriptors of the room's own: they become home's.
    Message {
        /// The thread that makes the call.
        host: HostTid,
        /// The numbers of the descriptors.
        fds: BTreeSet<i32>,
    },
    /// A stand-in becomes a stream.
    Stream(StandinId),
    /// A stream becomes a stand-in again.
    Standin {
        /// The stand-in that is meant.
        standin: StandinId,
        /// The numbers of the descriptors.
        fds: BTreeSet<i32>,
    },
}

impl Passing {
    /// The open files that are exchanged.
    pub fn sought(&self) -> Sought {
        match self {
            Passing::Message { fds, .. } | Passing::Standin { fds, .. } => Sought::Behind(fds.clone()),
            Passing::Stream(standin) => Sought::Standin(*standin),
        }
    }

    /// Why they cannot be, if some of them are none of `found`.
    pub fn lacks(&self, pid: i32, found: &Commons) -> Option<Refusal> {
        match self {
            Passing::Message { fds, .. } => {
                let why = || "a descriptor that it passes is of a kind that only comes home with its process";
                (!found.have(pid, fds)).then(|| why().into())
            }
            // One that was closed meanwhile needs no exchange.
            Passing::Stream(_) | Passing::Standin { .. } => None,
        }
    }
}
