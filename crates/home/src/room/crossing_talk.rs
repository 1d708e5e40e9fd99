//! Two stewards of one home that talk about one pair of streams.

use control_protocol::steward::RoomId;
use os::socket;
use relay::{Part, StreamId};
use room_protocol::message::onward::Ticket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::Shutdown;
use serde::{Deserialize, Serialize};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of the largest word.
const WORD_BYTES: usize = 4096;

/// A word of one steward to the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CrossWord {
    /// The follower does not have the stream, or drives itself.
    None,
    /// The follower has the stream.
    Found(FoundStream),
    /// The driver's room makes a way, and shows this ticket.
    Admit {
        /// The ticket that is shown.
        ticket: Ticket,
        /// The number of the way.
        way: u64,
        /// The node of the driver's room.
        from: String,
    },
    /// Hold the stream.
    Hold,
    /// Is nothing of the stream at home? Answered by [`CrossWord::Quiet`].
    IsQuiet,
    /// The answer to [`CrossWord::IsQuiet`].
    Quiet(bool),
    /// The stream may go on.
    Release,
    /// Have the room cross over to this stream, and wait. Answered by [`CrossWord::Crossed`].
    Await {
        /// The stand-in of the driver's stream.
        standin: u32,
        /// The time that it is a stream.
        epoch: u32,
        /// The number of the way.
        way: u64,
    },
    /// The follower's room has crossed over.
    Crossed,
    /// The room of the steward that says this sends home again, from behind so many bytes.
    Parted {
        /// The number of bytes that the other process has taken for certain.
        taken: u64,
    },
    /// The room of the steward that says this is to send bytes to the other one: that one is to
    /// know all changes of files first.
    Fence {
        /// The number of the way.
        way: u64,
        /// The number of the room's question.
        number: u64,
    },
    /// The follower knows that both rooms send home again.
    Done,
}

/// The other end of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundStream {
    /// The room that has the stream.
    pub room: RoomId,
    /// The node that hosts the room.
    pub node: String,
    /// Where the daemon of that node listens.
    pub address: SocketAddr,
    /// The stand-in of the stream.
    pub standin: u32,
    /// The time that it is a stream.
    pub epoch: u32,
}

impl FoundStream {
    /// Gives the stream, as its room names it.
    pub fn id(&self) -> StreamId {
        StreamId { standin: self.standin, epoch: self.epoch }
    }
}

/// A room's word about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TalkEvent {
    /// A frame of the kind [`relay::Frame::Crossed`].
    Crossed,
    /// A frame of the kind [`relay::Frame::Parted`].
    Parted(Part),
}

/// One end of a conversation.
#[derive(Debug)]
pub struct Talk {
    socket: OwnedFd,
    round: Mutex<Round>,
    changed: Condvar,
}

/// The events since the streams began to cross over.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    has_crossed: bool,
    has_parted: bool,
    has_peer_parted: bool,
    is_follower: bool,
    /// The way by which the streams go.
    way: Option<u64>,
}

impl Talk {
    /// Takes a connected socket.
    pub fn new(socket: OwnedFd) -> Talk {
        Talk { socket, round: Mutex::default(), changed: Condvar::new() }
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to cross over.
    pub fn begin_round(&self) {
        *self.round() = Round::default();
    }

    /// Notes that the own room is told to cross over.
    pub fn cross(&self, way: u64) {
        self.round().way = Some(way);
    }

    /// Tells whether the streams go by this way.
    pub fn goes_by(&self, way: u64) -> bool {
        self.round().way == Some(way)
    }

    /// Says a word to the other steward.
    ///
    /// # Errors
    /// The other steward is gone.
    pub fn say(&self, word: &CrossWord) -> Result<(), String> {
        let bytes = postcard::to_stdvec(word).map_err(|e| e.to_string())?;
        socket::send(self.socket.as_fd(), &[IoSlice::new(&bytes)], &[], 0).map_err(|e| e.to_string())
    }

    /// Waits for a word; `None` if the other steward is gone.
    pub fn hear(&self) -> Option<CrossWord> {
        let (packet, _) = socket::receive_whole(self.socket.as_fd(), WORD_BYTES).ok()?;
        postcard::from_bytes(&packet).ok()
    }

    /// Waits for a word, or until `limit` is over; tells whether there is one to hear, or the other
    /// steward is gone.
    pub fn await_word(&self, limit: Duration) -> bool {
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&limit)).is_ok_and(|ready| ready > 0)
    }

    /// Ends the conversation, for both.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// Takes what the own room said.
    pub fn note(&self, event: TalkEvent) {
        let is_done = {
            let mut round = self.round();
            match event {
                TalkEvent::Crossed => round.has_crossed = true,
                TalkEvent::Parted(_) => (round.has_parted, round.way) = (true, None),
            }
            round.is_follower && round.has_parted && round.has_peer_parted
        };
        if let TalkEvent::Parted(Part { taken }) = event {
            // A steward that is gone is noticed by its listener.
            let _ = self.say(&CrossWord::Parted { taken });
            if is_done {
                let _ = self.say(&CrossWord::Done);
            }
        }
        self.changed.notify_all();
    }

    /// Notes, for the follower, that the other room sends home again. Tells whether both do.
    pub fn note_peer(&self) -> bool {
        let mut round = self.round();
        (round.has_peer_parted, round.is_follower) = (true, true);
        round.has_parted
    }

    /// Waits until the own room has crossed over. Tells whether it has, and not parted at once;
    /// `None` if neither happened in time.
    pub fn await_crossed(&self, limit: Duration) -> Option<bool> {
        let waits = |round: &mut Round| !round.has_crossed && !round.has_parted;
        let waited = self.changed.wait_timeout_while(self.round(), limit, waits);
        let (round, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (round.has_crossed || round.has_parted).then_some(round.has_crossed)
    }
}
