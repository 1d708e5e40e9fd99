//! Another room of the same home, to which a process goes straight: how to reach it, and what its
//! steward and this one say to each other.

use crate::deputy::record::Deputy;
use control_protocol::steward::RoomId;
use os::pidfd::PidFd;
use room_protocol::message::onward;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The room that a process goes to.
#[derive(Clone, Debug)]
pub struct PeerRoom {
    /// The room that is meant.
    pub room: RoomId,
    /// Where the daemon of the node listens that hosts it.
    pub address: SocketAddr,
    /// The name of that node.
    pub node: String,
    /// The ticket that lets the process in.
    pub ticket: onward::Ticket,
}

/// A message from one steward to the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StewardMessage {
    /// From the steward of the room that the process enters: an empty body is there.
    Prepared,
    /// Likewise: the body stands, and may run.
    Stands,
    /// From the one that it leaves, the commit point: this deputy is yours. What it holds the
    /// process by, and the channels of its threads in this order, come in the packets behind it.
    Take(Box<Handover>),
    /// Some of the descriptors of [`StewardMessage::Take`].
    More,
    /// From the steward of the room that the process enters: the deputy is taken, and the process
    /// runs.
    Taken,
    /// The process has run since then: CLOCK_MONOTONIC, nanoseconds.
    Runs {
        /// By this home's clock.
        monotonic_ns: i64,
    },
    /// The process cannot come, in words: nothing was changed.
    Failed {
        /// The reason, in words.
        why: String,
    },
    /// The process cannot come for what was so at that moment: a later try may succeed.
    Retryable {
        /// The reason, in words.
        why: String,
    },
}

/// A deputy, but for its descriptors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The threads, and the numbers of their channels' ends in the deputy.
    pub threads: Vec<(i32, Option<i32>)>,
    /// Its descriptors that stand-ins stand for, those of one open file together.
    pub standins: Vec<Vec<i32>>,
    /// Path of its program.
    pub path: Vec<u8>,
    /// Calls that were refused to it.
    pub refusals: Vec<String>,
    /// Children whose ends are not told.
    pub unborn: Vec<i32>,
    /// Calls that were made for the body.
    pub calls: u64,
    /// Some of the body's pages follow when it runs: by this loan.
    pub follows: Option<u32>,
    /// Its descriptors to which something has happened since the body stood still.
    pub changed: Vec<i32>,
    /// Signals that came while the body stood still, and the threads that they were for.
    pub signals: Vec<(Option<i32>, Vec<u8>)>,
}

impl Handover {
    /// Describes a deputy; gives also its pidfd and the channels of its threads, in the same order.
    pub fn of<'a>(
        deputy: &'a Deputy,
        signals: &[(Option<i32>, [u8; 128])],
        follows: Option<u32>,
        changed: Vec<i32>,
    ) -> (Handover, Vec<BorrowedFd<'a>>) {
        let threads = deputy.threads.iter().map(|(tid, thread)| (*tid, thread.number)).collect();
        let channels = deputy.threads.values().map(|thread| thread.channel().as_fd());
        let handover = Handover {
            threads,
            standins: deputy.standins.values().cloned().collect(),
            path: deputy.program.path.clone(),
            refusals: deputy.refusals.iter().cloned().collect(),
            unborn: deputy.unborn.clone(),
            calls: deputy.calls,
            follows,
            changed,
            signals: signals.iter().map(|(tid, info)| (*tid, info.to_vec())).collect(),
        };
        let fds = [deputy.pidfd.as_fd()].into_iter().chain(channels).collect();
        (handover, fds)
    }
}

/// A deputy that has come, with the descriptors that were with it.
#[derive(Debug)]
pub struct Given {
    /// The description of the deputy.
    pub handover: Handover,
    /// The handle of the process.
    pub pidfd: PidFd,
    /// Its threads' channels.
    pub channels: Vec<OwnedFd>,
}
