//! Kernel objects that move with a process: open files that are not on disk, and that the
//! destination creates anew. Only objects of which no other process has a descriptor are in an
//! image.

use serde::{Deserialize, Serialize};

/// All kernel objects of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objects {
    /// Open files that descriptors name.
    pub made: Vec<Made>,
    /// Pipes that their ends name.
    pub pipes: Vec<Pipe>,
    /// Memories that areas and descriptors name.
    pub memories: Vec<Memory>,
}

/// Memory that areas share, or that a descriptor refers to, and that no file at home holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// The kind of the memory.
    pub kind: MemoryKind,
    /// Size of the memory, bytes.
    pub bytes: u64,
}

/// The kind of a memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryKind {
    /// Anonymous shared memory (MAP_SHARED | MAP_ANONYMOUS).
    Anonymous,
    /// A memfd (memfd_create(2)).
    File {
        /// Name of the memfd.
        name: Vec<u8>,
        /// Permission bits of the file.
        mode: u32,
        /// F_SEAL_ bits, as in fcntl(2).
        seals: u32,
    },
}

/// One open file that is created anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// The object that is open.
    pub object: Object,
    /// O_ flags of the open file.
    pub flags: i32,
}

/// The kind and state of an open file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Object {
    /// A counter (eventfd(2)).
    Counter {
        /// Value of the counter.
        count: u64,
        /// Whether reading takes one at a time (EFD_SEMAPHORE).
        semaphore: bool,
    },
    /// A timer (timerfd_create(2)).
    Timer {
        /// Number of the clock, CLOCK_.
        clock: i32,
        /// Interval, and time until the next expiry; each in seconds and nanoseconds.
        setting: [u64; 4],
        /// Number of expiries not read yet.
        ticks: u64,
    },
    /// A descriptor that reads signals (signalfd(2)).
    Signals {
        /// Mask: bit n-1 for signal n.
        mask: u64,
    },
    /// An epoll instance (epoll_create(2)), with what it watches.
    Watch(Vec<Watched>),
    /// An end of a pipe.
    PipeEnd {
        /// Index in the list of pipes.
        pipe: u32,
        /// Whether this is the write end.
        writes: bool,
    },
    /// A pidfd of the process itself (pidfd_open(2)).
    Oneself,
    /// A descriptor of a memory.
    Memory {
        /// Index in the list of memories.
        memory: u32,
        /// File offset, bytes.
        offset: u64,
    },
}

/// A descriptor that an epoll instance watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Number of the descriptor.
    pub fd: i32,
    /// EPOLL bits, as in epoll_ctl(2).
    pub events: u32,
    /// Data that the program gave with it.
    pub data: u64,
    /// Whether the program was already told that an edge-triggered (EPOLLET) descriptor is ready.
    pub told: bool,
}

/// A pipe of which only this process has descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// Capacity of the pipe, bytes.
    pub capacity: u32,
    /// Bytes written and not read.
    pub content: Vec<u8>,
}
