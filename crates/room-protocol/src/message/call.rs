//! System calls that are forwarded, and what they name.

use serde::{Deserialize, Serialize};

/// Number of a forwarded call or stand-in request, chosen by the warden, unique in the life of a
/// room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallId(pub u64);

/// A descriptor of a deputy that a body holds through a stand-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StandinId(pub u32);

impl StandinId {
    /// Set in the number of what stands for a regular file: the room's kernel is told so when it
    /// opens the stand-in, before it is known what for.
    pub const FILE: u32 = 1 << 29;

    /// This number, for a regular file's stand-in.
    pub fn of_file(self) -> StandinId {
        StandinId(self.0 | Self::FILE)
    }

    /// It stands for a regular file.
    pub fn is_file(self) -> bool {
        self.0 & Self::FILE != 0
    }

    /// Tells which flags of its open file the room's kernel knows as well (fcntl(2)): that of a
    /// stream would let one write wait for the other if it were to append.
    pub fn flags_there(self) -> i32 {
        if self.is_file() { APPEND | NONBLOCK } else { NONBLOCK }
    }
}

/// O_APPEND and O_NONBLOCK (asm-generic/fcntl.h).
const APPEND: i32 = 0o2000;
const NONBLOCK: i32 = 0o4000;

/// A system call to be run by a deputy thread: numbers, and what its pointers point to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// System-call number (x86-64).
    pub nr: u32,
    /// Arguments; those whose bit is set in `pointers` are offsets into `data`.
    pub args: [u64; 6],
    /// Bit i: `args[i]` is an offset into `data`.
    pub pointers: u8,
    /// The memory that the call sees.
    pub data: Vec<u8>,
    /// What of `data` comes back: from here ...
    pub out_offset: u32,
    /// ... so many bytes ...
    pub out_bytes: u32,
    /// ... or, if not zero, at most `out_fixed` and the result times this.
    pub out_per_result: u32,
    /// A fixed number of bytes beside `out_per_result`.
    pub out_fixed: u32,
    /// Offsets of words in `data` that are offsets into `data` themselves: pointers in structures.
    pub inner: Vec<u32>,
    /// The stand-in whose number at home is `args[0]`.
    pub standin: Option<StandinId>,
    /// Another one, and the argument that is its number.
    pub also: Option<(u8, StandinId)>,
    /// Stops of job control that the thread blocks (bit n-1 for signal n): a terminal asks.
    pub blocked: u32,
    /// Where in `data` the numbers of these stand-ins go (descriptors that are passed on).
    pub passed: Vec<(u32, StandinId)>,
}

impl Call {
    /// Makes a call whose arguments are numbers only.
    pub fn new(nr: i64, args: [u64; 6]) -> Call {
        Call { nr: nr as u32, args, ..Call::default() }
    }
}
