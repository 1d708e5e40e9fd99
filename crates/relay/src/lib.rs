//! Streams of moved processes: pumps with credits.
//!
//! # The problem
//!
//! A connected stream socket of a process that is away stays at home, where its peer sees it. If
//! each read and write of the process is a call that home makes, the process waits for the network
//! each time, even when bytes already wait at home, and even when nobody needs an answer.
//!
//! # The way taken
//!
//! In the room the process has one end of a Unix socket pair: a socket of the hosting kernel, on
//! which read, write, poll, epoll, sendfile and splice cost what they cost on any socket. The other
//! end is the [`RoomEnd`]. At home the [`HomeEnd`] has the true socket. A link that keeps frames in
//! order lies between.
//!
//! ```text
//!  process    pair      RoomEnd            link             HomeEnd     socket     peer
//!    | write -->| ------->| -- Data, End ------------------->| -- write ->| ------->|
//!    |          |         |<------------------- Taken -------|            |         |
//!    | <- read -| <-------| <------------------- Data, End --|<-- peek ---|<--------|
//!    |          |         | -- Taken ----------------------->|-- discard->|         |
//! ```
//!
//! - **Credit.** Each direction has at most a window of bytes under way ([`Sending`]). A slow
//!   reader therefore stops its writer, as it does where there is only one kernel. All streams of a
//!   room together have at most [`UNDER_WAY_BYTES_MAX`] under way, so they never fill the room's
//!   link.
//! - **Bytes that the process has not read stay at home, too.** The home end peeks (recv(2),
//!   MSG_PEEK), and discards only what the process has read. If the process moves on or comes home,
//!   nothing needs to be put back: the bytes are where a process at home finds them, and another
//!   room gets them anew.
//! - **Bytes that the process wrote are home's as soon as the link has them.** Before the process
//!   leaves its room, or home makes a call for it, the room end sends all that the pair holds
//!   ([`RoomEnd::send_all`]). Before the process runs at home, the home end writes all that it has
//!   into the true socket, whose send buffer grows for that ([`HomeEnd::settle`]).
//! - **Errors** of the true socket stay there for the process to find: the home end only says that
//!   there is one ([`Frame::Fault`]), and the room makes a stand-in of the stream again, on which
//!   home makes the calls.
//!
//! The kernel does not say which bytes of a pair were read, but it counts the memory of the
//! messages that were not ([`Consumption`]).

mod consumption;
mod credit;
mod frame;
mod home_end;
mod pump;
mod room_end;

pub use consumption::Consumption;
pub use credit::{Receiving, Sending};
pub use frame::{Frame, FrameError, StreamId};
pub use home_end::{Account, HomeEnd, Part};
pub use pump::{AcrossTo, End, Failed, HomePump, Pump, RoomPump, SplitEnd, Turn};
pub use room_end::RoomEnd;

use std::time::Duration;
use thiserror::Error;

/// The most bytes under way in one direction of a stream, unless set otherwise.
pub const WINDOW_BYTES: u32 = 256 << 10;

/// The most bytes under way in one direction of all streams of a room, unless set otherwise: fewer
/// than the buffers of a link hold.
pub const UNDER_WAY_BYTES_MAX: u64 = 256 << 10;

/// The time after which a receiver tells what was taken, if nothing else takes the news along.
const TELL_AFTER: Duration = Duration::from_millis(1);

/// The most bytes of one frame.
const CHUNK_BYTES: usize = 64 << 10;

/// A peer that breaks the protocol of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OutOfOrder {
    /// Bytes do not follow those before.
    #[error("bytes at {offset} of a stream came where those at {expected} were to come")]
    Offset {
        /// The offset that came.
        offset: u64,
        /// The offset that was to come.
        expected: u64,
    },
    /// More bytes came than the credit allows.
    #[error("{bytes} bytes of a stream came beyond its credit of {credit}")]
    Credit {
        /// The number of bytes that came.
        bytes: u64,
        /// The number of bytes that were allowed.
        credit: u64,
    },
    /// Bytes came behind the end.
    #[error("bytes came behind the end of a stream")]
    Ended,
    /// The peer took more than it was sent, or less than before.
    #[error("a peer says that it took {upto} bytes of a stream, and {taken} to {sent} are possible")]
    Taken {
        /// The number that the peer says.
        upto: u64,
        /// The number that it said before.
        taken: u64,
        /// The number of bytes that it was sent.
        sent: u64,
    },
}

/// A failure of a stream.
#[derive(Debug, Error)]
pub enum StreamError {
    /// The other end broke the protocol.
    #[error(transparent)]
    OutOfOrder(#[from] OutOfOrder),
    /// The true socket has an error, which stays in it ([`Frame::Fault`]).
    #[error("the socket at home has an error")]
    Fault,
    /// No process in the room has the stream any more. All that was written is on its way.
    #[error("the stream was closed in its room")]
    Closed,
    /// Both directions of the stream have ended: its room cannot tell any more when it is closed.
    #[error("both directions of the stream have ended")]
    Ended,
    /// The kernel refused an operation on a socket of the stream.
    #[error("{doing}: {source}")]
    Socket {
        /// The operation that the kernel refused.
        doing: &'static str,
        /// The kernel's error.
        source: rustix::io::Errno,
    },
    /// The kernel did not answer a question about a socket of the stream.
    #[error(transparent)]
    Os(#[from] os::Error),
}
