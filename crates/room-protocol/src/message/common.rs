//! Open files that several bodies of a room have.

use super::StandinId;
use serde::{Deserialize, Serialize};

/// One of them, which home has from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Common {
    /// What it is called in the room from now on.
    pub standin: StandinId,
    /// Who has it.
    pub holders: Vec<i32>,
    /// What it is.
    pub what: CommonFile,
}

/// An open file of the room's, as home's server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpenAtHome {
    /// Number of the file.
    pub node: u64,
    /// Number of the open file.
    pub fh: u64,
}

/// A descriptor of an open file that may have a lock of its own (flock(2), F_OFD_SETLK): that stays
/// if the very open file is home's again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedFile {
    /// The number of the descriptor.
    pub fd: i32,
    /// What home has open for it.
    pub at_home: OpenAtHome,
}

/// A file of home's that home holds for a room, because processes there have it mapped shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeldFile {
    /// Device number (`st_dev`) of the root of its file system, at home.
    pub device: u64,
    /// Inode number of the file.
    pub inode: u64,
}

/// Device and inode number of memory that can be shared, where the room is.
pub type MemoryId = ((u32, u32), u64);

/// What becomes of those with which a body that is to leave shares memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// They stay, and so does it.
    Stays,
    /// They come home with it ([`super::ToHome::Shares`]).
    Comes,
    /// It is one of those that come home with this one, which was collected.
    With(i32),
}

/// One of the kinds of [`Common`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommonFile {
    /// A file of home's.
    Named {
        /// The path of the file.
        path: Vec<u8>,
        /// The number of the inode.
        inode: u64,
        /// O_ flags to open it with.
        flags: i32,
        /// It is not at that path any more.
        removed: bool,
        /// The offset in the file, bytes.
        offset: u64,
        /// The descriptor in the body that is to leave: if its deputy has the file at this number,
        /// that is the one.
        fd: i32,
        /// It may have a lock of its own.
        locked: Option<OpenAtHome>,
    },
    /// An end of a pipe.
    PipeEnd {
        /// Its place in the list.
        pipe: u32,
        /// The end that is written to.
        writes: bool,
        /// O_NONBLOCK and the like.
        flags: i32,
    },
    /// An end of a pair of sockets.
    PairEnd {
        /// The pair's place in the list.
        pair: u32,
        /// Its second end.
        second: bool,
        /// O_NONBLOCK and the like.
        flags: i32,
    },
}

/// A pipe that several bodies have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonPipe {
    /// Its size, bytes.
    pub capacity: u32,
    /// What was written to it and not read.
    pub content: Vec<u8>,
}

/// A pair of sockets (socketpair(2)) that was made in the room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonPair {
    /// SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET.
    pub kind: i32,
    /// Which process made it, if that is known.
    pub maker: Option<i32>,
    /// Its ends; nobody has that of which nothing is told.
    pub ends: [Option<PairEnd>; 2],
}

/// An end of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairEnd {
    /// What its options are set to (`os::pairs::options`).
    pub options: Vec<Vec<u8>>,
    /// What was sent to it and not received: messages; of a stream, one.
    pub content: Vec<Vec<u8>>,
    /// Which directions are shut down (`os::pairs::Told`).
    pub shut: u8,
    /// The other end was closed before all was received there, and this one has not been told
    /// (ECONNRESET).
    pub reset: bool,
}
