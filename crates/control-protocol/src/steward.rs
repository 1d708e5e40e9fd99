//! What a daemon says to the stewards and wardens that it started, over their Unix sockets
//! (SOCK_SEQPACKET, postcard, one message a packet).
//!
//! Stewards' sockets lie in `/run/tern/rooms`: `ROOM.steward`. A daemon that starts anew finds them
//! there. (What it hosts it notes itself.)

use crate::calls::CallsReport;
use crate::moves::{HopReport, MoveOptions};
use crate::queues::RoomQueues;
use crate::tool::Homecoming;
use serde::{Deserialize, Serialize};

/// Name of a room: 128 random bits, chosen by the home's daemon. It names the room on both nodes,
/// and admits the warden's connection together with the warden's node certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RoomId(pub [u8; 16]);

impl std::fmt::Display for RoomId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::fmt::Debug for RoomId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RoomId({self})")
    }
}

/// The first bytes on every TCP connection to a daemon, in plain, before the TLS handshake: they
/// decide who speaks TLS on this socket. 32 bytes: `b"tern"`, version (u16 LE), kind (u16 LE), room
/// id (16 bytes; zero if there is none), 8 bytes zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preamble {
    /// Daemon to daemon.
    Control,
    /// A node that wants to be admitted with an invitation: TLS, but without a client certificate.
    Join,
    /// A warden to the steward of this room; the daemon hands the socket over.
    Room(RoomId),
    /// A warden of another node to the warden of this room, which is hosted here, with a process
    /// that moves; likewise.
    Lane(RoomId),
}

/// Version of the preamble and of everything behind it.
pub const PREAMBLE_VERSION: u16 = 1;
/// Bytes of a preamble on the wire.
pub const PREAMBLE_BYTES: usize = 32;

impl Preamble {
    /// Gives the bytes on the wire.
    pub fn encode(self) -> [u8; PREAMBLE_BYTES] {
        let mut out = [0; PREAMBLE_BYTES];
        out[..4].copy_from_slice(b"tern");
        out[4..6].copy_from_slice(&PREAMBLE_VERSION.to_le_bytes());
        let (kind, room) = match self {
            Preamble::Control => (1u16, [0; 16]),
            Preamble::Join => (2, [0; 16]),
            Preamble::Room(id) => (3, id.0),
            Preamble::Lane(id) => (4, id.0),
        };
        out[6..8].copy_from_slice(&kind.to_le_bytes());
        out[8..24].copy_from_slice(&room);
        out
    }

    /// Reads a preamble; `None` if it is none, or of a version that is not spoken here.
    pub fn decode(bytes: &[u8; PREAMBLE_BYTES]) -> Option<Preamble> {
        if bytes[..4] != *b"tern" || bytes[4..6] != PREAMBLE_VERSION.to_le_bytes() || bytes[24..] != [0; 8] {
            return None;
        }
        let mut room = [0; 16];
        room.copy_from_slice(&bytes[8..24]);
        match (u16::from_le_bytes([bytes[6], bytes[7]]), room) {
            (1, r) if r == [0; 16] => Some(Preamble::Control),
            (2, r) if r == [0; 16] => Some(Preamble::Join),
            (3, r) => Some(Preamble::Room(RoomId(r))),
            (4, r) => Some(Preamble::Lane(RoomId(r))),
            _ => None,
        }
    }
}

/// Daemon to steward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSteward {
    /// The warden's TCP connection; one descriptor comes with the message (the socket after its
    /// preamble, before the TLS handshake).
    Warden,
    /// Place the caller. Three descriptors come with the message: the caller's socket, a sealed
    /// memfd with a postcard [`Program`], and the caller's pidfd. The steward tells the process by
    /// [`crate::tool::placing`] before it answers; nobody else writes there any more.
    Place {
        /// The process that sent the request to the daemon.
        caller: Caller,
        /// What becomes of it when it must go home.
        homecoming: Homecoming,
        /// It sees home's numbers of file systems from its beginning.
        home_devices: bool,
    },
    /// Say who is away: answered by [`FromSteward::Guests`].
    List,
    /// Why is this process where it is, and what was refused to it? Answered by
    /// [`FromSteward::Why`].
    Why {
        /// PID of the process, at home.
        pid: i32,
    },
    /// Which calls has this process made in the room? Answered by [`FromSteward::Calls`].
    Calls {
        /// PID of the process, at home.
        pid: i32,
        /// Also of its children, theirs, and its relatives there, those that have ended included.
        family: bool,
    },
    /// End the room: bodies are killed, deputies exit as if killed.
    Close,
    /// How much has passed between home and room? Answered by [`FromSteward::Traffic`].
    Traffic,
    /// Take this process of the home, which runs there, to the room. Answered by
    /// [`FromSteward::Moved`]. If a descriptor comes with it, that is the socket of the tool that
    /// waits, which the steward tells how far it is ([`crate::tool::progress`]), and which may call
    /// it off.
    Move {
        /// PID of the process, at home.
        pid: i32,
        /// How its memory shall go.
        wish: MoveOptions,
        /// User who wants it; the process must still be that user's when it stands still. 0: root,
        /// or the policy.
        asker_uid: u32,
        /// A process with the same memory, and the room that has been told to lend it.
        sibling: Option<LentSibling>,
    },
    /// Let another room read the pages of this process, once. Answered by [`FromSteward::Ok`].
    Lend {
        /// PID of the process, at home.
        pid: i32,
        /// The ticket that the other room shows.
        ticket: [u8; 16],
        /// The node of the other room.
        to: String,
    },
    /// Bring this process home. Answered likewise.
    Recall {
        /// PID of the process, at home.
        pid: i32,
        /// How its memory shall go.
        wish: MoveOptions,
        /// Those with which it shares memory come as well; else they stay, and so does it.
        family: bool,
    },
    /// Pass this process on to another room of this home, straight from node to node. Answered
    /// likewise, or by [`FromSteward::Detour`].
    Pass {
        /// PID of the process, at home.
        pid: i32,
        /// How its memory shall go.
        wish: MoveOptions,
        /// The other room; its steward is this home's too.
        to: Onward,
    },
    /// Steward to steward, for [`ToSteward::Pass`]: a process comes to your room from another one.
    /// What follows on this connection the two agree on.
    Receive {
        /// PID of the process, at home.
        pid: i32,
        /// Who is let into the room with it: a number that only the two rooms know.
        ticket: [u8; 16],
        /// Node that hosts it now.
        from: String,
        /// What it holds, as its room says.
        outline: Vec<u8>,
        /// Whose processes the room has that it leaves.
        owner: u32,
    },
    /// Steward to steward: has your room the other end of this stream? The two agree on the
    /// messages that follow on this connection.
    Stream(StreamSought),
    /// Whose processes does the room have? Answered by [`FromSteward::Owner`].
    Owner,
    /// Does the room's node answer? Answered by [`FromSteward::Link`].
    Link,
    /// How much CPU time have the room's processes used? Answered by [`FromSteward::Used`].
    Used,
    /// The home or the room's node is about to be suspended. Answered when the room's bodies stand
    /// still, or by [`FromSteward::Failed`]; from then on, a silent link does not count as lost.
    Suspend {
        /// For at most so long, milliseconds.
        for_ms: u32,
    },
    /// The suspension is over.
    Wake,
    /// Which kind of room is this? Answered by [`FromSteward::Kind`].
    Kind,
    /// Where do messages of the room's processes wait? Answered by [`FromSteward::Queues`].
    Queues,
}

/// A stream whose other end is sought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSought {
    /// The room that has the stream.
    pub room: RoomId,
    /// The name of the end that the room has.
    pub own: String,
    /// The name of the other end.
    pub peer: String,
}

/// The process that asked to be placed, as the kernel described it when its request came
/// (SCM_CREDENTIALS). The steward places it only while all of its ids are these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// PID at home.
    pub pid: i32,
    /// Start time, clock ticks since boot.
    pub began: u64,
    /// The user of the process.
    pub uid: u32,
    /// The group of the process.
    pub gid: u32,
}

/// Another room, to which a process goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Onward {
    /// The room that is meant.
    pub room: RoomId,
    /// Name of the node that hosts it.
    pub node: String,
    /// Where its daemon listens.
    pub address: std::net::SocketAddr,
    /// A number that nobody can guess: who shows it is let in with the process.
    pub ticket: [u8; 16],
}

/// A process away whose pages another room may read ([`ToSteward::Lend`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LentSibling {
    /// PID of the process, at home.
    pub pid: i32,
    /// The room of the process, and the ticket that opens it.
    pub at: Onward,
}

/// Steward to daemon: answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromSteward {
    /// The answer to [`ToSteward::List`].
    Guests {
        /// Node that hosts the room.
        host: String,
        /// Room is connected to its warden.
        connected: bool,
        /// The processes that are away.
        guests: Vec<Guest>,
    },
    /// To [`ToSteward::Why`]: one line each, empty if the process is not in this room.
    Why {
        /// What there is to say.
        lines: Vec<String>,
    },
    /// The answer to [`ToSteward::Calls`]; none if the process is not in this room.
    Calls(Option<CallsReport>),
    /// Done (or handed over).
    Ok,
    /// What was tried and why it failed.
    Failed {
        /// The reason, in words.
        reason: String,
    },
    /// To [`ToSteward::Move`], [`ToSteward::Recall`] and [`ToSteward::Pass`].
    Moved(HopReport),
    /// To [`ToSteward::Pass`]: it runs where it was, and cannot go straight from node to node, in
    /// words; through home it may.
    Detour {
        /// The reason, in words.
        why: String,
    },
    /// To [`ToSteward::Traffic`]: both directions together, since the room was made.
    Traffic {
        /// The frames that were sent.
        frames: u64,
        /// Bytes before encryption.
        bytes: u64,
    },
    /// The answer to [`ToSteward::Owner`].
    Owner {
        /// The id of the user.
        uid: u32,
    },
    /// The answer to [`ToSteward::Link`].
    Link {
        /// For how long nothing has come from the node, milliseconds, if something waits for its
        /// answer.
        silent_ms: Option<u64>,
    },
    /// The answer to [`ToSteward::Used`].
    Used {
        /// Node that hosts the room.
        host: String,
        /// Id of the user whose room it is.
        owner: u32,
        /// CPU time since the room was made, of all that ran there, microseconds.
        cpu_us: u64,
    },
    /// The answer to [`ToSteward::Kind`].
    Kind {
        /// The kind of the room.
        kind: RoomKind,
    },
    /// The answer to [`ToSteward::Queues`].
    Queues(Box<RoomQueues>),
}

/// The surroundings that the processes of a room find there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RoomKind {
    /// Home: its files, sockets, host name and devices.
    #[default]
    Home,
    /// The hosting node: its own files, network, host name and devices (node-local mode). Only what
    /// is about processes is home's.
    NodeLocal,
}

/// A process whose body is away, as its home sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// PID of the process, at home.
    pub pid: i32,
    /// Real user id.
    pub uid: u32,
    /// `running`, `sleeping`, ... as the hosting kernel says (one letter as in /proc/PID/stat), or
    /// [`UNTOLD`](Guest::UNTOLD); `stopped` as home does.
    pub state: char,
    /// CPU time used by the body, microseconds.
    pub cpu_us: u64,
    /// Resident memory of the body, bytes.
    pub rss_bytes: u64,
    /// Threads of the body.
    pub threads: u32,
    /// Calls that its deputy has made for it since it came.
    pub calls: u64,
    /// Command line, arguments joined by spaces.
    pub command: String,
}

impl Guest {
    /// It has just come: its room has not told yet.
    pub const UNTOLD: char = '?';
    /// tern holds it for a moment: nothing that a user would call stopped.
    pub const HELD: char = 't';

    /// Its state in the words of ps(1).
    pub fn shown_state(&self) -> char {
        if matches!(self.state, Guest::UNTOLD | Guest::HELD) { 'S' } else { self.state }
    }
}

/// What is to be run, as `tern run` resolved it at home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Absolute path at home.
    pub path: Vec<u8>,
    /// Arguments, the program's name first.
    pub argv: Vec<Vec<u8>>,
    /// The environment, as `NAME=value`.
    pub envp: Vec<Vec<u8>>,
    /// Signals that it starts with blocked (bit n-1 for signal n).
    pub blocked: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preamble_round_trip_and_refusal() {
        for p in [Preamble::Control, Preamble::Join, Preamble::Room(RoomId([7; 16])), Preamble::Lane(RoomId([8; 16]))] {
            assert_eq!(Preamble::decode(&p.encode()), Some(p));
        }
        let mut bad = Preamble::Control.encode();
        bad[4] = 9;
        assert_eq!(Preamble::decode(&bad), None);
        let mut bad = Preamble::Control.encode();
        bad[31] = 1;
        assert_eq!(Preamble::decode(&bad), None);
    }
}
