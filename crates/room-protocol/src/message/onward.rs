//! A process that goes from one room to another of the same home: home says how, and switches; its
//! image and pages go straight from node to node, over a link of their own ([`Hello`], then frames
//! as on the way from home, with [`crate::ToRoom::Rebuild`] at their end).

use migration_plan::Pace;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What only the two rooms of one move know.
pub type Ticket = [u8; 16];

/// The way to another room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Whom it lets in there.
    pub ticket: Ticket,
    /// Name of the node that hosts the room.
    pub node: String,
    /// Where its daemon listens.
    pub address: SocketAddr,
    /// The room that is meant.
    pub room: [u8; 16],
}

/// A process on another node whose memory is the same, or nearly: the children of one parent on
/// many nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sibling {
    /// PID of that process, at home.
    pub pid: i32,
    /// The way to its room, which has been told the ticket ([`Order::Lend`]).
    pub lane: Lane,
}

/// The use of a way between two rooms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// A process of this PID is brought.
    Process(i32),
    /// Streams go by it ([`WayOrder`]).
    Streams,
    /// The pages of the process of this PID are read ([`Order::Lend`]).
    Pages(i32),
}

/// First message on such a way: its use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version of this protocol ([`crate::VERSION`]).
    pub version: u32,
    /// The use of the way.
    pub purpose: Purpose,
    /// Who is let in.
    pub ticket: Ticket,
}

/// What a running body holds: enough to make an empty one like it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// An image (crate `image`) with files, descriptors, objects, working directory, umask and
    /// executable alone; and with its memory areas, if these are few.
    pub image: Vec<u8>,
    /// Signals that it ignores (bit n-1 for signal n).
    pub ignored: u64,
    /// SA_NOCLDSTOP and SA_NOCLDWAIT of its SIGCHLD.
    pub child_flags: u64,
    /// Its own memory, about.
    pub own_bytes: u64,
}

/// How the memory of a body that runs is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    /// Of which try ([`Said::Ahead`]).
    pub ticket: Ticket,
    /// For how long it may stand still at the end, microseconds.
    pub max_freeze_us: u64,
    /// What a move takes whatever its size, microseconds: as the last ones did.
    pub fixed_us: u64,
    /// What the link carries, bytes per second: likewise.
    pub bytes_per_s: u64,
    /// How its pages go.
    pub pace: Pace,
    /// It is watched. Else it must be small enough to be compared at the stop with a copy of what
    /// was sent.
    pub watched: bool,
    /// Only what cannot follow it goes ahead: pages of files' copies. They are compared.
    pub files_alone: bool,
}

/// How the memory of a body that runs is to be sent home ([`Said::Sends`], an image with the areas
/// that are laid out there, pages, [`Said::Ahead`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Homeward {
    /// As to another room.
    pub ahead: Ahead,
    /// Start and end of what its deputy has where its memory would be.
    pub taken: Vec<(u64, u64)>,
}

/// How sending the memory of a body that runs went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Went {
    /// The number of rounds.
    pub rounds: u32,
    /// It writes as fast as the link carries.
    pub outrun: bool,
}

/// Bytes that an outline may have: it fits a packet.
pub const OUTLINE_BYTES_MAX: usize = 128 << 10;

/// From the room that it has come to, back by the way that it came: of pages that follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    /// The body waits for these: start and end, where they were when it stopped.
    Fetch(Vec<(u64, u64)>),
    /// A frame of them is in place.
    Filled,
    /// None is missing any more: all are there, or whose they were has ended.
    Enough,
    /// The answer to [`crate::Kind::Await`].
    InPlace,
    /// To [`crate::ToRoom::LayOut`]: pages that are there from an earlier stay, as in
    /// [`crate::ToHome::PeerPages`].
    PeerPages {
        /// The pages, with their hashes.
        pages: Vec<(u64, [u8; 16])>,
        /// No more will come.
        last: bool,
    },
}

/// Home to one of the two rooms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// To the one that it leaves: say what it holds ([`Said::Outline`]).
    Outline,
    /// To the same: make the way to the other room ([`Said::Connected`]).
    Connect(Lane),
    /// To the same: send its memory by that way while it runs ([`Said::Ahead`]).
    Ahead(Ahead),
    /// To the one that it leaves for home: send its memory while it runs.
    Homeward(Homeward),
    /// To the same: no more of that.
    Enough,
    /// To the same: send pages that can neither be laid out at home ahead nor follow, while it runs
    /// ([`crate::Kind::Advance`], then [`Said::Advanced`]).
    Advance {
        /// Of which try.
        number: u32,
        /// How they go.
        pace: Pace,
    },
    /// To the other: who shows this ticket, and is this node, brings it.
    Admit {
        /// The ticket that is shown first.
        ticket: Ticket,
        /// Name of the node.
        from: String,
    },
    /// To the room of a process: the room that shows this ticket, once, and is on this node, may
    /// read the pages of the process ([`Sibling`]).
    Lend {
        /// The ticket that is shown first.
        ticket: Ticket,
        /// Name of the node.
        to: String,
    },
}

/// Home to one of two rooms whose streams are to go straight from room to room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WayOrder {
    /// Make the way ([`crate::ToHome::Way`]).
    Connect(Lane),
    /// To the other: who shows this ticket, and is this node, makes it.
    Admit {
        /// The ticket that is shown first.
        ticket: Ticket,
        /// Name of the node.
        from: String,
    },
}

/// One of the two rooms to home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// The answer to [`Order::Outline`].
    Outline(Result<Outline, String>),
    /// The answer to [`Order::Connect`].
    Connected(Result<(), String>),
    /// To [`Order::Ahead`]: what was not written since is there; or why it cannot be sent ahead.
    Ahead {
        /// In which try.
        ticket: Ticket,
        /// How it is done.
        result: Result<Went, String>,
    },
    /// To [`Order::Homeward`]: it begins; its own memory is about so many bytes.
    Sends {
        /// How much it was, bytes.
        own_bytes: u64,
    },
    /// To [`Order::Advance`]: all were sent, or why not.
    Advanced {
        /// In which try.
        number: u32,
        /// The failure, in words.
        result: Result<(), String>,
    },
    /// Pages (start and bytes) that went home ahead, and are not there any more.
    Gone(Vec<(u64, u64)>),
    /// It holds something else than its outline said: it goes on, and [`crate::ToHome::Whole`]
    /// follows.
    Changed,
    /// Some of its pages follow when it runs in the other room; [`crate::ToHome::Whole`] comes
    /// behind this.
    Lends {
        /// Whose pages: the number that [`crate::ToRoom::Rebuild`] gave.
        loan: u32,
    },
    /// From the room that it has left: so much has followed; [`crate::ToHome::Drained`] comes
    /// behind this.
    Followed {
        /// Bytes of pages.
        bytes: u64,
        /// Of these, what was waited for.
        asked_bytes: u64,
    },
    /// From the room that it has come to: nothing is missing there any more, or why it will be for
    /// ever, and who misses it is killed.
    Complete {
        /// Whose pages, as [`Said::Lends`] said. A body that was called off says this late, when
        /// another of its number comes.
        loan: u32,
        /// The failure, in words.
        result: Result<(), String>,
    },
    /// Pages were sent.
    Passed {
        /// Bytes of pages.
        bytes: u64,
        /// What they were on the wire.
        wire_bytes: u64,
    },
    /// Pages need not be sent: the other room has them from an earlier stay.
    PeerPages {
        /// Bytes of pages.
        bytes: u64,
    },
}
