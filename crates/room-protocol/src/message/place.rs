//! What a home looks like, and what is placed in its room.

use super::StandinId;
use serde::{Deserialize, Serialize};

/// What a home looks like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// Version of the steward's side ([`crate::VERSION`]).
    pub version: u32,
    /// The name of the host.
    pub hostname: Vec<u8>,
    /// NIS domain name.
    pub domainname: Vec<u8>,
    /// CLOCK_MONOTONIC of home, nanoseconds, at the moment of sending.
    pub monotonic_ns: i64,
    /// CLOCK_BOOTTIME of home likewise.
    pub boottime_ns: i64,
    /// The code that the home's kernel maps into every process, whole pages (vdso(7)).
    pub vdso: Vec<u8>,
    /// The room ends when its home has been out of reach for so long, milliseconds.
    pub lost_after_ms: u32,
    /// The home's file systems: number is the index; path is where it is mounted, `/` first.
    pub mounts: Vec<Mount>,
    /// Their numbers, and those of what the room has of its own.
    pub devices: Vec<HomeDevice>,
}

/// How a file system of home's is numbered there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeDevice {
    /// Where it is mounted, absolute.
    pub path: Vec<u8>,
    /// `st_dev` of its root.
    pub device: u64,
    /// Number of the mount (proc_pid_mountinfo(5)).
    pub mount: u64,
}

/// One file system of home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Where it is mounted at home, absolute.
    pub path: Vec<u8>,
    /// Mounted read-only there.
    pub read_only: bool,
}

/// A process to be placed: everything that its home's kernel says of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// PID of the process.
    pub pid: i32,
    /// Program, arguments, environment.
    pub program: Program,
    /// Working directory, absolute.
    pub cwd: Vec<u8>,
    /// The mask of umask(2).
    pub umask: u32,
    /// The credentials of the process.
    pub credentials: Credentials,
    /// Signals ignored (bit n-1 for signal n).
    pub ignored: u64,
    /// The signals that are blocked.
    pub blocked: u64,
    /// Resource limits by number: soft, hard (`u64::MAX`: unlimited).
    pub limits: Vec<(u64, u64)>,
    /// The nice value of the process.
    pub nice: i32,
    /// The persona of personality(2).
    pub personality: u32,
    /// Open descriptors that the program inherits.
    pub descriptors: Vec<Descriptor>,
    /// Directories among them, which the body opens itself.
    pub directories: Vec<Directory>,
    /// It sees home's numbers of file systems from its beginning, as one that is moved does.
    pub home_devices: bool,
    /// It runs already, and is moved: its image follows. Then `program` names what it is, and
    /// nothing is executed.
    pub arrival: Option<Arrival>,
}

/// An open directory: nobody can tell whether it is one open file with another's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// Number of the descriptor.
    pub fd: i32,
    /// The path of the file.
    pub path: Vec<u8>,
    /// The flags of open(2).
    pub flags: i32,
    /// Offset, as the file system counts.
    pub offset: u64,
}

/// What a process that is moved needs before its image comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Files to be opened.
    pub files: Vec<ToOpen>,
    /// Descriptor of the first of them; the others follow.
    pub files_at: i32,
    /// Its soft and hard limit of descriptors (RLIMIT_NOFILE), which are set when all are at their
    /// numbers.
    pub descriptors_max: (u64, u64),
    /// SA_NOCLDSTOP and SA_NOCLDWAIT of its SIGCHLD.
    pub child_flags: u64,
    /// Capabilities at home.
    pub capabilities: Capabilities,
}

/// A file that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToOpen {
    /// The path of the file.
    pub path: Vec<u8>,
    /// The flags of open(2).
    pub flags: i32,
    /// Inode number at home; 0: whatever has that name.
    pub inode: u64,
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The absolute path.
    pub path: Vec<u8>,
    /// The arguments of the program.
    pub argv: Vec<Vec<u8>>,
    /// The environment of the program.
    pub envp: Vec<Vec<u8>>,
}

/// Who a thread is, and what it may do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Real, effective, saved, and file-system user id.
    pub uid: [u32; 4],
    /// Real, effective, saved, and file-system group id.
    pub gid: [u32; 4],
    /// The supplementary groups.
    pub groups: Vec<u32>,
    /// Capabilities at home.
    pub capabilities: Capabilities,
}

/// Sets of capabilities, a bit each (capabilities(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Those that the thread may take.
    pub permitted: u64,
    /// Those that count.
    pub effective: u64,
    /// Those that a program which it executes may be given.
    pub inheritable: u64,
    /// Those that the next program has.
    pub ambient: u64,
    /// The most that a program can be given.
    pub bounding: u64,
}

/// One descriptor of a deputy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Number in the body.
    pub fd: i32,
    /// Number in the deputy: the same, but for what has come to be in another room.
    pub at_home: i32,
    /// Its stand-in; equal descriptions (same open file) have equal numbers.
    pub standin: StandinId,
    /// O_ flags of the open file.
    pub flags: i32,
    /// It may be a terminal: signals of job control decide about its use.
    pub terminal: bool,
    /// A socket with a time limit: a call on it that a signal interrupts is over.
    pub timed: bool,
    /// Offset of the open file, bytes.
    pub offset: u64,
    /// Bytes of a file that is appended to: the room's kernel tells its offset by them.
    pub end: Option<u64>,
}
