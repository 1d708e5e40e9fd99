//! Open files that live in the kernel of the machine where their process runs, and are made anew where it goes. Only such as no other process has.

use serde::{Deserialize, Serialize};

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objects {
    /// What descriptors name.
    pub made: Vec<Made>,
    /// What the ends of pipes name.
    pub pipes: Vec<Pipe>,
    /// What areas and descriptors show.
    pub memories: Vec<Memory>,
}

/// Memory that areas share, or that a descriptor shows, and no file of the home's holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What it is.
    pub kind: MemoryKind,
    /// Its size, bytes.
    pub bytes: u64,
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryKind {
    /// MAP_SHARED | MAP_ANONYMOUS
    Anonymous,
    /// memfd_create(2)
    File {
        /// What it was called.
        name: Vec<u8>,
        /// Permission bits.
        mode: u32,
        /// F_SEAL_ bits.
        seals: u32,
    },
}

/// One open file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// What it is.
    pub object: Object,
    /// O_ flags of the open file.
    pub flags: i32,
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Object {
    /// eventfd(2)
    Counter {
        /// Its count.
        count: u64,
        /// EFD_SEMAPHORE
        semaphore: bool,
    },
    /// timerfd_create(2)
    Timer {
        /// CLOCK_ number.
        clock: i32,
        /// Interval, and rest until it ends next, each seconds and nanoseconds.
        setting: [u64; 4],
        /// How often it has ended unread.
        ticks: u64,
    },
    /// signalfd(2)
    Signals {
        /// Bit n-1 for signal n.
        mask: u64,
    },
    /// epoll_create(2)
    Watch(Vec<Watched>),
    /// An end of a pipe.
    PipeEnd {
        /// Its place in the list of pipes.
        pipe: u32,
        /// The end that is written to.
        writes: bool,
    },
    /// pidfd_open(2) of the process itself.
    Oneself,
    /// A memory that is a file.
    Memory {
        /// Its place in the list.
        memory: u32,
        /// Offset, bytes.
        offset: u64,
    },
}

/// A descriptor that an epoll instance watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched {
    /// Its number.
    pub fd: i32,
    /// EPOLL bits.
    pub events: u32,
    /// What the program has given with it.
    pub data: u64,
    /// Of one that is told of once each time it becomes ready (EPOLLET): what it is ready for was told.
    pub told: bool,
}

/// A pipe that only this process has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipe {
    /// Its size, bytes.
    pub capacity: u32,
    /// What was written and not read.
    pub content: Vec<u8>,
}
