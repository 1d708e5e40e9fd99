//! Messages that are not FUSE: what is placed, forwarded, signalled, and how it ended.

mod call;
mod common;
mod errand;
pub mod onward;
mod place;
mod process;
mod queries;
mod to_home;
mod to_room;

pub use call::{Call, CallId, StandinId};
pub use common::{
    Common, CommonFile, CommonPair, CommonPipe, Family, HeldFile, LockedFile, MemoryId, OpenAtHome, PairEnd,
};
pub use errand::Errand;
pub use place::{
    Arrival, Capabilities, Credentials, Descriptor, Directory, Home, HomeDevice, Mount, Place, Program, ToOpen,
};
pub use queries::{DeviceName, DeviceNode, Look};
pub use to_home::ToHome;
pub use to_room::ToRoom;

use serde::{Deserialize, Serialize};

/// What can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Birth {
    /// A thread of the same process.
    Thread,
    /// A child process.
    Process,
}

/// What a body uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyUsage {
    /// PID of the process, at home.
    pub pid: i32,
    /// State letter as in /proc/PID/stat.
    pub state: char,
    /// CPU time, microseconds.
    pub cpu_us: u64,
    /// Resident memory, bytes.
    pub rss_bytes: u64,
    /// The number of threads.
    pub threads: u32,
}

/// Most rows of [`ToHome::Calls`].
pub const CALL_COUNTS_MAX: usize = 2000;

/// The place that served a call which a guest's filter had handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CallPlace {
    /// The kernel of the hosting node.
    Node,
    /// The room's warden.
    Room,
    /// Home, after a round trip.
    Home,
}

/// The processes whose calls are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallsOf {
    /// The process alone.
    Process,
    /// All processes of the room that descend from the same one that came there.
    Family,
}

/// How often a process has made a call that one place served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCount {
    /// The number of the system call.
    pub nr: u32,
    /// Where it was served.
    pub place: CallPlace,
    /// The number of calls.
    pub calls: u64,
    /// From the moment it was taken to its answer, all together, nanoseconds.
    pub total_ns: u64,
    /// The longest one, nanoseconds.
    pub longest_ns: u64,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// exit status (0..=255).
    Exit(u8),
    /// Killed by this signal.
    Signal(u8),
    /// Killed by this signal, and the hosting kernel has written a core (core(5)).
    Core(u8),
}

/// Whose doing the end of a body was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The program's own, as it would have been at home.
    Own,
    /// The hosting kernel wanted memory.
    Memory,
    /// The first process of the room ended, and all others with it.
    Room,
    /// The warden failed on the body's account (a fault of tern's), and ended it.
    Warden {
        /// What failed, in words.
        why: String,
    },
}
