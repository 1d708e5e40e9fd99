//! What a steward and a deputy blob say to each other, and what the blob finds when it starts. No
//! dependencies: the blob is built from it too.
//!
//! One packet (SOCK_SEQPACKET) is one message: a fixed header, then bytes. The steward sends a
//! [`Request`], the deputy thread answers with one [`Reply`] of kind [`REPLY`]; packets of kind
//! [`SIGNAL`] come between, in the order in which things happened to the thread.
#![no_std]
#![forbid(unsafe_code)]

/// Bytes of data that one packet may carry behind its header; also the size of a deputy thread's
/// buffer.
pub const DATA_BYTES: usize = 128 << 10;

/// Stack of a deputy thread, bytes.
pub const STACK_BYTES: usize = 32 << 10;

/// Run the system call `nr`.
pub const OP_CALL: u32 = 1;
/// Make another thread; its channel comes with the packet (SCM_RIGHTS). The result is its TID, and
/// above its 32 bits the channel's number.
pub const OP_THREAD: u32 = 2;
/// End this thread; no reply.
pub const OP_THREAD_EXIT: u32 = 3;
/// End the process with status `args[0]`; no reply.
pub const OP_EXIT: u32 = 4;
/// End the process as signal `args[0]` does by default; no reply.
pub const OP_DIE: u32 = 5;
/// End the process as signal `args[0]` does by default, and leave a core, so that its parent is
/// told of one (WCOREDUMP of wait(2)); no reply. Data holds a directory for it, ended by NUL, in
/// which a core with a relative name goes. The core has next to nothing of the blob's memory.
pub const OP_DIE_WITH_CORE: u32 = 21;
/// The program changed (exec): data holds `args[0]` bytes of argument strings, then, if `args[1]`
/// is not zero, the path of its file, ended by NUL.
pub const OP_PROGRAM: u32 = 6;

/// Make a child process, a deputy too; its channel comes with the packet (SCM_RIGHTS). The result
/// is its PID; the child says [`READY`] on its channel. Data holds `args[0]` numbers (`i32`):
/// channels of the process' other threads, which the child closes.
pub const OP_FORK: u32 = 7;
/// Take the descriptor that comes with the packet (SCM_RIGHTS); the result is its number.
pub const OP_TAKE: u32 = 9;
/// Ignore exactly the signals of `args[0]` (bit n-1 for signal n), catch the others; `args[1]`:
/// flags of SIGCHLD's action.
pub const OP_IGNORE: u32 = 8;
/// Signals whose being ignored does something at home: SIGPIPE, SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU
/// (bit n-1 for signal n). A deputy catches all others, also if its program ignores them.
pub const FELT_IF_IGNORED: u64 = 1 << 12 | 1 << 16 | 0b111 << 19;
/// Do what signal `args[0]` (SIGTSTP, SIGTTIN, SIGTTOU) does by default: the home's kernel stops
/// the process, or does not if its group is orphaned. Nothing is done if the process was continued
/// meanwhile: `args[1]` is how many SIGCONTs it has told of. Replies when the process goes on.
pub const OP_STOP: u32 = 20;

/// Steward to deputy thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// One of the `OP_` numbers.
    pub op: u32,
    /// System-call number of [`OP_CALL`].
    pub nr: u32,
    /// Arguments. Those whose bit is set in `pointers` are offsets into the data.
    pub args: [u64; 6],
    /// Bit i: `args[i]` is an offset into the data that follows, to become an address.
    pub pointers: u32,
    /// What of the data goes back with the reply: from here ...
    pub out_offset: u32,
    /// ... so many bytes ...
    pub out_bytes: u32,
    /// ... or, if not zero, at most `out_fixed` and as many as the call returned, times this.
    pub out_per_result: u32,
    /// A fixed number of bytes beside `out_per_result`.
    pub out_fixed: u32,
    /// Bytes of data behind this header.
    pub data_bytes: u32,
    /// Behind the data: so many offsets (u32) of words in the data that are offsets into it
    /// themselves, to become addresses.
    pub inner: u32,
    /// Signals that the thread blocks during the call (bit n-1 for signal n).
    pub blocked: u32,
}

/// Kind of an answer to a [`Request`].
pub const REPLY: u32 = 0x0de9_0001;
/// Kind of a note that a signal arrived; data is the siginfo (128 bytes).
pub const SIGNAL: u32 = 0x0de9_0002;
/// First packet of a deputy: it is ready. `result` is the TID, and above its 32 bits the channel's
/// number.
pub const READY: u32 = 0x0de9_0003;

/// The call was not executed: a signal came first. (Also -EINTR of a call that had done nothing.)
pub const NOT_EXECUTED: i64 = -512;

/// Deputy thread to steward.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// [`REPLY`], [`SIGNAL`] or [`READY`].
    pub kind: u32,
    /// Bytes of data behind this header.
    pub data_bytes: u32,
    /// As the kernel returned it: negative is an error number. For [`SIGNAL`] the signal.
    pub result: i64,
}

/// The signal with which the steward interrupts a deputy thread in a forwarded call (never shown to
/// the program). It is one that glibc keeps for itself, and uses only inside a process.
pub const CANCEL_SIGNAL: i32 = 33;

/// What the blob finds at start, in the memory that its loader prepared.
#[repr(C)]
#[derive(Debug)]
pub struct Start {
    /// First address of the region that stays (page aligned): blob, this struct, argument strings,
    /// stack, buffer.
    pub region_start: u64,
    /// First address behind it.
    pub region_end: u64,
    /// Where the argument strings begin, ...
    pub arg_start: u64,
    /// ... end, and the environment begins, ...
    pub arg_end: u64,
    /// ... and the environment ends.
    pub env_end: u64,
    /// The bytes of memory reserved for arguments and environment from `arg_start`.
    pub arg_room: u64,
    /// Two buffers' worth of memory for the first thread: stack, then data.
    pub thread_area: u64,
    /// The descriptor of the channel.
    pub channel_fd: i32,
    /// The program's file, to be shown as /proc/PID/exe; -1 if none.
    pub exe_fd: i32,
    /// Signals that are ignored until [`OP_IGNORE`] says others (bit n-1 for signal n).
    pub ignored: u64,
    /// Not zero: what is mapped beside the region stays, for the body still fetches its pages; the
    /// steward has it unmapped.
    pub keeps: u64,
    /// Name of the program, for /proc/PID/comm.
    pub comm: [u8; 16],
    /// How many SIGCONTs were told; the blob counts here.
    pub continued: core::sync::atomic::AtomicU32,
    /// Zero; the first thread makes it one when signals are caught: others wait for that.
    pub ready: core::sync::atomic::AtomicU32,
}

/// A thread's control block at the top of its stack; the FS base points to it. Whoever makes a
/// deputy of a running process writes it for every thread but the first, and sets the thread's
/// registers: instruction pointer to the blob's first byte, `rdi` zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadBlock {
    /// Its own address.
    pub this: u64,
    /// The thread's channel.
    pub channel_fd: i32,
    /// Reserved, and zero.
    pub reserved: u32,
    /// Header and data of the current request.
    pub buffer: u64,
    /// Address of the process' [`Start`].
    pub start: u64,
}

impl ThreadBlock {
    /// For a thread with this area of memory ([`THREAD_AREA_BYTES`]).
    pub const fn new(area: u64, channel_fd: i32, start: u64) -> ThreadBlock {
        let this = area + STACK_BYTES as u64 - 64;
        // The header ends where a page begins, so that data is page aligned.
        let buffer = area + STACK_BYTES as u64 + 4096 - size_of::<Request>() as u64;
        ThreadBlock { this, channel_fd, reserved: 0, buffer, start }
    }
}

/// Memory of one deputy thread: its stack and its buffer (header and data), rounded to pages.
pub const THREAD_AREA_BYTES: usize = STACK_BYTES + 4096 + DATA_BYTES;

const _: () = assert!(size_of::<Request>() == 88 && size_of::<Reply>() == 16 && size_of::<Start>() == 104);
const _: () = assert!(size_of::<ThreadBlock>() == 32);

/// The agreement between `tern` and the library that programs below `tern make` preload
/// (`blobs/exec-hook`).
///
/// Before it executes a program, the library sends one packet to the socket that
/// [`spread::SOCKET`] names: [`spread::ASK`], then words, each ended by NUL: the file, and the
/// program's arguments. The answer is one byte: [`spread::STAYS`] or [`spread::GOES`]. A program
/// that goes is executed by way of the `tern` that lies beside the socket as [`spread::TOOL`], with
/// the words [`spread::JOB`], the file, and the arguments.
pub mod spread {
    /// Environment variable: path of the socket.
    pub const SOCKET: &[u8] = b"TERN_SPREAD=";
    /// Environment variable: what is executed with it, and not empty, stays where it is, with all
    /// that it starts.
    pub const LOCAL: &[u8] = b"TERN_LOCAL=";
    /// Environment variable: path of the FIFO that holds make's tokens.
    pub const TOKENS: &[u8] = b"TERN_TOKENS=";
    /// First byte of a question.
    pub const ASK: u8 = b'A';
    /// Longest question, bytes; what is longer is cut off.
    pub const ASK_BYTES: usize = 4096;
    /// The answer for a program that is executed as it is.
    pub const STAYS: u8 = b'S';
    /// The answer for a program that is executed by way of `tern`.
    pub const GOES: u8 = b'G';
    /// Name of the link to `tern` in the directory of the socket.
    pub const TOOL: &[u8] = b"tern";
    /// The first argument of `tern` for such a program.
    pub const JOB: &[u8] = b"__job";
}
