//! What the arguments of a call are, so that a call can be carried to another machine without code
//! of its own.

/// One argument of a call. A pointer that is null stays null: nothing is read or written through
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A number, passed on as it is: size, offset, command, mode.
    Int,
    /// A set of bits, passed on as it is.
    Flags,
    /// A file descriptor of the caller. It means something else on another machine.
    Fd,
    /// A process, group or session; 0 and negative values as the call defines them. The same number
    /// at home and away.
    Pid,
    /// A thread. The same number at home and away.
    Tid,
    /// A signal's number.
    Signal,
    /// A user or group.
    Id,
    /// A path, zero-terminated, at most 4096 bytes with its end.
    Path,
    /// A zero-terminated string of at most so many bytes with its end.
    CStr(u16),
    /// Memory that the call reads.
    In(Len),
    /// Memory that the call writes. Left alone when the call fails.
    Out(Len),
    /// Memory that the call reads, then writes.
    InOut(Len),
    /// An array of `struct iovec`, whose length is this argument, over memory that the call reads.
    IovIn(u8),
    /// The same over memory that the call writes.
    IovOut(u8),
    /// An address in the caller's memory that is not read or written by value: a mapping, a futex,
    /// a stack.
    Address,
    /// A structure that holds further pointers, or whose layout depends on other arguments: the
    /// call needs code of its own.
    Opaque,
}

/// How many bytes a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Len {
    /// So many bytes, always.
    Fixed(u16),
    /// As many bytes as this argument says.
    Arg(u8),
    /// As many elements of `size` bytes as the argument `count` says.
    Elements {
        /// Index of the argument that counts.
        count: u8,
        /// Bytes of one element.
        size: u16,
    },
    /// Room for as many bytes as this argument says, of which the call's result says how many it
    /// filled.
    Result(u8),
    /// Room for as many elements as the argument says, of which the call's result says how many it
    /// filled.
    ResultElements {
        /// Index of the argument that says how many fit.
        count: u8,
        /// Bytes of one element.
        size: u16,
    },
    /// This argument points to a `u32` that says how many bytes fit, and after the call how many
    /// there were.
    Pointed(u8),
}

impl Arg {
    /// Tells whether the argument can be carried to another machine by its description alone.
    pub const fn is_declarative(self) -> bool {
        match self {
            Arg::Int | Arg::Flags | Arg::Pid | Arg::Tid | Arg::Signal | Arg::Id | Arg::CStr(_) => true,
            Arg::In(len) => matches!(len, Len::Fixed(_) | Len::Arg(_) | Len::Elements { .. }),
            Arg::Out(len) | Arg::InOut(len) => !matches!(len, Len::Pointed(_)),
            Arg::Fd | Arg::Path | Arg::IovIn(_) | Arg::IovOut(_) | Arg::Address | Arg::Opaque => false,
        }
    }
}
