//! The state of a process, in terms that mean the same on any node.

use crate::objects::Objects;
use serde::{Deserialize, Serialize};

/// The image of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// State that all threads share.
    pub process: Process,
    /// The threads, the leader first.
    pub threads: Vec<Thread>,
    /// The memory areas, ascending.
    pub areas: Vec<Area>,
    /// Files, which areas and descriptors name by their index.
    pub files: Vec<File>,
    /// The descriptors, ascending.
    pub descriptors: Vec<Descriptor>,
    /// Open files that are not on disk, which descriptors name by their index.
    pub objects: Objects,
}

/// State that all threads of a process share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// PID at home.
    pub pid: i32,
    /// Guard regions (MADV_GUARD_INSTALL of madvise(2)): start and end, ascending.
    pub guards: Vec<(u64, u64)>,
    /// File mode creation mask (umask(2)).
    pub umask: u32,
    /// Working directory, an absolute path.
    pub cwd: Vec<u8>,
    /// Inode number of the working directory; 0 if it is not known.
    pub cwd_inode: u64,
    /// Index of the program's file; `None` if it is not known.
    pub exe: Option<u32>,
    /// Actions of signals 1 to 64: handler, flags, restorer and mask, as in rt_sigaction(2).
    pub actions: Vec<[u64; 4]>,
    /// ITIMER_REAL, VIRTUAL and PROF: interval and remaining time, each in seconds and
    /// microseconds.
    pub itimers: [[u64; 4]; 3],
    /// POSIX timers, ascending.
    pub timers: Vec<Timer>,
    /// Addresses of the parts of memory.
    pub layout: Layout,
    /// The auxiliary vector, as in /proc/PID/auxv.
    pub auxv: Vec<u8>,
    /// The pages that the kernel maps: vvar and vdso.
    pub vdso: Option<Vdso>,
    /// Signals pending for the process, with their information (128 bytes each).
    pub pending: Vec<Vec<u8>>,
    /// CPU time used on all nodes ...
    pub used: Used,
    /// ... and the part of it that home's kernel did not count, because the process ran on other
    /// nodes.
    pub used_away: Used,
    /// Settings made by prctl(2): PR_SET_ number ([`SETTINGS`]) and value.
    pub settings: Vec<(u8, u64)>,
    /// Protection keys that the process has allocated (pkey_alloc(2)): bit n for key n, 1 to 15.
    pub keys: u16,
    /// Commands of membarrier(2) with which the process has registered ([`BARRIERS`]).
    pub barriers: u16,
    /// Whether the process may be dumped and traced (PR_GET_DUMPABLE).
    pub dumpable: u8,
    /// Processor features for which the process has permission ([`PERMITTED_FEATURES`]).
    pub permitted: u64,
    /// The content of the rings of asynchronous I/O.
    pub rings: Vec<Ring>,
}

/// A ring of asynchronous I/O (io_setup(2)) whose requests have all ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    /// Address of the ring's area, by which the program calls the context.
    pub start: u64,
    /// Completions that the program has not read, the oldest first: `struct io_event`.
    pub events: Vec<[u64; 4]>,
}

/// Commands that register (linux/membarrier.h): GLOBAL_EXPEDITED, PRIVATE_EXPEDITED, ..._SYNC_CORE,
/// ..._RSEQ.
pub const BARRIERS: u16 = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8;

/// Features, by their bits, that need a permission (ARCH_REQ_XCOMP_PERM): tile data (AMX).
pub const PERMITTED_FEATURES: u64 = 1 << 18;

/// CPU time, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as getrusage(2) has them")]
pub struct Used {
    pub user_ns: u64,
    pub system_ns: u64,
}

impl Used {
    /// Adds user and system time.
    pub fn total_ns(self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// Adds another CPU time.
    pub fn and(self, more: Used) -> Used {
        Used {
            user_ns: self.user_ns.saturating_add(more.user_ns),
            system_ns: self.system_ns.saturating_add(more.system_ns),
        }
    }
}

/// Settings of a whole process that move: the numbers of prctl(2) to read and to set them
/// (linux/prctl.h): THP_DISABLE, MDWE, MEMORY_MERGE, KEEPCAPS. A room's kernel is asked while home
/// waits for the answer, so none may be a setting that home answers.
pub const SETTINGS: [(u8, u8); 4] = [(42, 41), (66, 65), (68, 67), (7, 8)];

/// A POSIX timer (timer_create(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// Id of the timer in the kernel.
    pub id: i32,
    /// Number of the clock, CLOCK_.
    pub clock: i32,
    /// The signal that the timer sends.
    pub signal: i32,
    /// Value that the signal carries.
    pub value: u64,
    /// SIGEV_ bits, as in sigevent(3type).
    pub notify: i32,
    /// The thread that gets the signal, if the timer is for one thread.
    pub tid: i32,
    /// Interval, and time until the next expiry; each in seconds and nanoseconds.
    pub setting: [u64; 4],
}

/// Addresses of the parts of memory: `struct prctl_mm_map` without its files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "named as in prctl(2), PR_SET_MM_MAP")]
pub struct Layout {
    pub start_code: u64,
    pub end_code: u64,
    pub start_data: u64,
    pub end_data: u64,
    pub start_brk: u64,
    pub brk: u64,
    pub start_stack: u64,
    pub arg_start: u64,
    pub arg_end: u64,
    pub env_start: u64,
    pub env_end: u64,
}

/// The pages that the kernel maps: vvar, vvar_vclock and vdso, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vdso {
    /// First address of these pages.
    pub start: u64,
    /// First address behind these pages.
    pub end: u64,
    /// Address of the code; `end` if the program has unmapped it.
    pub code: u64,
}

/// General registers, in the order of `user_regs_struct` (sys/user.h).
pub type Registers = [u64; 27];

/// The state of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// TID at home.
    pub tid: i32,
    /// Name, at most 15 bytes.
    pub comm: Vec<u8>,
    /// General registers, such that the thread continues in user code.
    pub registers: Registers,
    /// XSAVE area in its standard form.
    pub extended: Vec<u8>,
    /// The thread must enter its system call again, and no signal handler may run before the kernel
    /// has read the call's arguments, because they lie below the stack pointer.
    pub enters_call: bool,
    /// Mask of blocked signals.
    pub mask: u64,
    /// The alternate signal stack.
    pub stack: Stack,
    /// Address that the kernel clears at the thread's end.
    pub clear_tid: u64,
    /// Nice value, as in setpriority(2).
    pub nice: i32,
    /// Scheduling policy (sched(7)), with SCHED_RESET_ON_FORK; real-time policies are not
    /// supported.
    pub policy: u32,
    /// I/O priority class and level (ioprio_set(2)).
    pub io_priority: u16,
    /// CPU affinity that the thread has set, as bits of words (sched_setaffinity(2)).
    pub processors: Option<Vec<u64>>,
    /// Timer slack, nanoseconds; 0 if it is not known or not set.
    pub slack_ns: u64,
    /// Head and length of the list of robust futexes.
    pub robust: (u64, u64),
    /// Restartable sequences, see rseq(2).
    pub rseq: Rseq,
    /// CPU time used on all nodes, nanoseconds ...
    pub used_ns: u64,
    /// ... and on other nodes than home.
    pub used_away_ns: u64,
    /// Signals pending for the thread, with their information (128 bytes each).
    pub pending: Vec<Vec<u8>>,
    /// Execution domain of personality(2).
    pub personality: u32,
    /// Settings made by prctl(2).
    pub settings: ThreadSettings,
}

/// Rarely used settings of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSettings {
    /// Access to the time stamp counter (PR_GET_TSC); 0 if it is not known.
    pub counter: u8,
    /// Reaction to corrupted memory (PR_MCE_KILL_GET), if it is known.
    pub broken_memory: Option<u8>,
    /// Speculation settings (PR_GET_SPECULATION_CTRL): store bypass, indirect branches, L1D flush;
    /// 0 if the thread cannot choose.
    pub speculation: [u8; 3],
}

/// An alternate signal stack (sigaltstack(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Lowest address of the stack.
    pub at: u64,
    /// SS_ flags of the stack.
    pub flags: u32,
    /// Size of the stack, bytes.
    pub bytes: u64,
}

/// A registration of restartable sequences (rseq(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rseq {
    /// Address of the area; 0 if none is registered.
    pub area: u64,
    /// Size of the area, bytes.
    pub bytes: u32,
    /// Signature before abort handlers.
    pub signature: u32,
}

/// One memory area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// First address of the area.
    pub start: u64,
    /// First address behind the area.
    pub end: u64,
    /// PROT_ bits, as in mmap(2).
    pub protection: u8,
    /// The mapped content.
    pub content: Content,
    /// Whether writes are shared (MAP_SHARED; memories, and files that are only read).
    pub shared: bool,
    /// Whether the area grows downwards (MAP_GROWSDOWN).
    pub grows_down: bool,
    /// Whether swap space is not reserved (MAP_NORESERVE).
    pub no_reserve: bool,
    /// Whether the kernel counts the area as committed memory (VM_ACCOUNT), because it is or was
    /// writable. Areas that differ in this alone are not merged.
    pub accounted: bool,
    /// Whether the area is locked (mlock(2)).
    pub locked: bool,
    /// Whether the kernel may drop pages (MAP_DROPPABLE).
    pub droppable: bool,
    /// MADV_ numbers that apply to the area.
    pub advice: [u8; 4],
    /// Protection key (pkey_mprotect(2)).
    pub key: u8,
}

impl Area {
    /// Creates private anonymous memory, as mmap(2) does.
    pub fn anonymous(start: u64, end: u64, protection: u8) -> Area {
        Area {
            start,
            end,
            protection,
            content: Content::Anonymous,
            shared: false,
            grows_down: false,
            no_reserve: false,
            accounted: true,
            locked: false,
            droppable: false,
            advice: [0; 4],
            key: 0,
        }
    }
}

/// The initial content of an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Zeros, until written.
    Anonymous,
    /// A file from this offset, until written.
    File {
        /// Index in the list of files.
        file: u32,
        /// Offset, in bytes.
        offset: u64,
    },
    /// A memory of the list from this offset; a private area keeps its own writes.
    Memory {
        /// Index in the list of memories.
        memory: u32,
        /// Offset, in bytes.
        offset: u64,
    },
    /// The ring of a context of asynchronous I/O (io_setup(2)).
    Ring,
}

/// A file at home (or one that is the same everywhere, such as /dev/null).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Absolute path of the file.
    pub path: Vec<u8>,
    /// Inode number at home.
    pub inode: u64,
    /// O_ flags to open the file with.
    pub flags: i32,
    /// The file has been removed; the path is its last name.
    pub removed: bool,
}

/// One file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Number of the descriptor.
    pub fd: i32,
    /// Whether exec closes it (FD_CLOEXEC).
    pub close_on_exec: bool,
    /// The open file.
    pub opened: Opened,
}

/// The open file of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opened {
    /// A file of the list. Descriptors with the same index share one open file.
    File {
        /// Index in the list of files.
        file: u32,
        /// Offset, in bytes.
        offset: u64,
    },
    /// An open file that stays at home, under this number in the deputy.
    Home(i32),
    /// An object of the list. Descriptors with the same index share the object.
    Made(u32),
}

impl Area {
    /// Tells whether the area is mapped when all content has arrived: it shows a memory of the list
    /// or a ring.
    pub fn is_mapped_last(&self) -> bool {
        matches!(self.content, Content::Memory { .. } | Content::Ring)
    }
}

impl Image {
    /// Gives the size of the area, bytes.
    pub fn bytes(&self) -> u64 {
        self.areas.iter().map(|a| a.end - a.start).sum()
    }
}
