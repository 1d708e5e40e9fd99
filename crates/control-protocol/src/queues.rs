//! The queues of processes that are away, for `tern netmon`.

use serde::{Deserialize, Serialize};

/// The most streams, and the most processes, of a room in one report.
pub const ROWS_MAX: usize = 256;
/// The longest name of a process or of an end of a connection in a report, bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// The queues of one room, as its home sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomQueues {
    /// Name of the room.
    pub room: String,
    /// Node that hosts the room.
    pub node: String,
    /// User whose room it is.
    pub owner: u32,
    /// The link between home and the room.
    pub link: LinkQueue,
    /// Streams of processes in the room, at most [`ROWS_MAX`].
    pub streams: Vec<StreamQueue>,
    /// Processes in the room, at most [`ROWS_MAX`].
    pub guests: Vec<GuestQueue>,
}

/// The link between a home and one of its rooms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkQueue {
    /// Bytes that the node has not acknowledged.
    pub unsent_bytes: u64,
    /// Bytes of streams that were sent to the room and that no process has taken.
    pub relay_bytes: u64,
    /// The most of these.
    pub relay_limit: u64,
    /// Frames in both directions since the room was made.
    pub frames: u64,
    /// Bytes of these before encryption.
    pub bytes: u64,
    /// For how long the node has owed an answer, milliseconds; 0 if it owes none.
    pub silent_ms: u64,
}

/// A stream: a connected socket at home whose bytes are pumped to and from a process that is away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamQueue {
    /// Number of the stream in its room, which no later stream has.
    pub id: u64,
    /// A process that has it.
    pub pid: Option<i32>,
    /// Name of the end that the process has, if the kernel told.
    pub own: String,
    /// Name of the other end.
    pub peer: String,
    /// The way that its bytes take.
    pub way: StreamWay,
    /// Bytes that came at home and that the process has not taken, those under way included.
    pub unread_bytes: u64,
    /// Bytes that were sent to the room and that the process has not taken.
    pub to_room_bytes: u64,
    /// The most of these.
    pub window_bytes: u64,
    /// Bytes that the process has taken since the stream began.
    pub taken_bytes: u64,
    /// Bytes of the process that the socket at home has no room for.
    pub waiting_bytes: u64,
    /// Bytes of the process that the socket has and the peer has not acknowledged or read.
    pub unsent_bytes: u64,
    /// Bytes that the process has sent since the stream began.
    pub received_bytes: u64,
}

/// The way that the bytes of a stream take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamWay {
    /// By way of home.
    #[default]
    Home,
    /// To another stream of the same room, without passing home.
    Room,
    /// To another room, without passing home.
    OtherRoom,
}

/// A process that is away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestQueue {
    /// PID at home.
    pub pid: i32,
    /// Real user id.
    pub uid: u32,
    /// Name of its program.
    pub program: String,
    /// Calls that home makes for it now, or that wait for that.
    pub calls_under_way: u64,
    /// Calls that home has made for it since it came to the room.
    pub calls: u64,
    /// Open files at home that stand-ins stand for.
    pub standins: u64,
}
