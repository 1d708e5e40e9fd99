//! What a room asks about home's /proc and open files.

use room_protocol::message::{Look, StandinId};

/// What the room wants to know.
#[derive(Debug)]
pub enum Inquiry {
    /// Something below /proc.
    Look {
        /// PID of the process that asks.
        pid: i32,
        /// The path that is looked at.
        path: Vec<u8>,
        /// What is asked about it.
        look: Look,
    },
    /// To change something below /proc.
    Write {
        /// The process that asks.
        pid: i32,
        /// Where, below /proc.
        path: Vec<u8>,
        /// What is written; nothing: it is only to be seen whether that may be.
        bytes: Vec<u8>,
    },
    /// The locks that a process has on a file.
    Locks {
        /// The process that has them.
        pid: i32,
        /// Inode number of the file.
        inode: u64,
    },
    /// What the open file of a stand-in is called.
    Name(StandinId),
}
