//! Questions of a room about home's /proc and open files.

use room_protocol::message::{Look, StandinId};

/// The question of the room.
#[derive(Debug)]
pub enum Inquiry {
    /// Something below /proc.
    Look {
        /// PID of the process that asks.
        pid: i32,
        /// The path that is looked at.
        path: Vec<u8>,
        /// The question about it.
        look: Look,
    },
    /// To change something below /proc.
    Write {
        /// The process that asks.
        pid: i32,
        /// Where, below /proc.
        path: Vec<u8>,
        /// The bytes to write; none to try only whether the caller may write.
        bytes: Vec<u8>,
    },
    /// The locks that a process has on a file.
    Locks {
        /// The process that has them.
        pid: i32,
        /// Inode number of the file.
        inode: u64,
    },
    /// The name of a stand-in's open file.
    Name(StandinId),
    /// Whether a stand-in may be a stream.
    Stream(StandinId),
}
