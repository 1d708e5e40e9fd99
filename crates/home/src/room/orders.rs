//! What other threads of the steward leave to the poller's thread, which has the steward's
//! privileges.

use crate::deputy::placement_request::PlacementRequest;
use crate::deputy::record::Deputy;
use room_protocol::message::{CallId, Common, CommonPair, CommonPipe, Errand, Look, Program, StandinId};
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;

/// A process that calls to come home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeCall {
    /// PID of its process.
    pub pid: i32,
    /// A process that this one is about to hold, or to look into, and that has to come first:
    /// home's kernel would show its deputy.
    pub first: Option<i32>,
    /// The errand of the process at home.
    pub errand: Errand,
}

/// Open files of a room, as it tells of them.
#[derive(Debug)]
pub struct CommonFiles {
    /// The files that are meant.
    pub files: Vec<Common>,
    /// The content of pipes.
    pub pipes: Vec<CommonPipe>,
    /// Pairs of sockets.
    pub pairs: Vec<CommonPair>,
}

/// An order to the poller's thread.
#[derive(Debug)]
pub enum Order {
    /// A process comes.
    Arrive {
        /// The process that asks.
        coming: PlacementRequest,
        /// The channel of the deputy.
        channel: OwnedFd,
        /// The program that it places.
        program: Program,
        /// Signals that it starts with blocked.
        blocked: u64,
    },
    /// A deputy has its body back.
    Dismiss {
        /// PID of the process, at home.
        pid: i32,
        /// The userfaultfd of the process, if pages of it are still in the room: until they have
        /// come, the process ends with the steward.
        memory: Option<OwnedFd>,
        /// Told when the process is no deputy of the room.
        done: Sender<()>,
    },
    /// Another steward is to have this deputy.
    Yield {
        /// PID of the process, at home.
        pid: i32,
        /// Receives the deputy, if there still is one.
        done: Sender<Option<Box<Deputy>>>,
    },
    /// The other steward has the deputy.
    Disown {
        /// PID of the process, at home.
        pid: i32,
        /// Told when the deputy does not end with this steward any more.
        done: Sender<()>,
    },
    /// All pages of a process that was dismissed are at home.
    Settled {
        /// PID of the process, at home.
        pid: i32,
        /// Told when nobody watches its memory any more.
        done: Sender<()>,
    },
    /// The body was interrupted in this call.
    Cancel(CallId),
    /// Say what this is ready for, and tell changes.
    Watch {
        /// Number of the request.
        id: CallId,
        /// PID of the process that asks.
        pid: i32,
        /// The stand-in that is meant.
        standin: StandinId,
    },
    /// Watch these from now on, if they are not yet.
    Notices {
        /// The stand-ins that are meant.
        standins: Vec<StandinId>,
        /// Told how many notices the room was sent of all that has happened until then.
        done: Sender<u64>,
    },
    /// Something has happened to these, which the room may not know.
    Notice(Vec<StandinId>),
    /// Look below /dev.
    LookAt {
        /// Number of the request.
        id: CallId,
        /// The path that is looked at.
        path: Vec<u8>,
        /// The question about it.
        look: Look,
    },
    /// A body wants to come home.
    BringHome(HomeCall),
    /// Files of the room that a process there passes through a socket become home's.
    TakeOver {
        /// PID of the process, at home.
        pid: i32,
        /// The files, as the room describes them.
        commons: CommonFiles,
    },
    /// Hold the open file of this stand-in no more.
    Release(StandinId),
    /// End a guest on whose account the steward has failed.
    Lose {
        /// PID of the process, at home.
        pid: i32,
        /// What failed, and why.
        why: String,
    },
}

impl Order {
    /// The process that it is about, where it is about one.
    pub fn process(&self) -> Option<i32> {
        match self {
            Order::Arrive { coming, .. } => Some(coming.proof.pid()),
            Order::BringHome(called) => Some(called.pid),
            Order::Dismiss { pid, .. }
            | Order::Yield { pid, .. }
            | Order::Disown { pid, .. }
            | Order::Settled { pid, .. }
            | Order::Watch { pid, .. }
            | Order::Lose { pid, .. } => Some(*pid),
            Order::TakeOver { pid, .. } => Some(*pid),
            Order::Cancel(_) | Order::Notices { .. } | Order::Notice(_) | Order::LookAt { .. } | Order::Release(_) => {
                None
            }
        }
    }
}
