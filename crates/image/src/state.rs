//! What a process is, in words that mean the same on any node.

use crate::objects::Objects;
use serde::{Deserialize, Serialize};

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// What its threads share.
    pub process: Process,
    /// Its threads, the first one first.
    pub threads: Vec<Thread>,
    /// Its memory, ascending.
    pub areas: Vec<Area>,
    /// Files that areas and descriptors name by their place in this list.
    pub files: Vec<File>,
    /// Its descriptors, ascending.
    pub descriptors: Vec<Descriptor>,
    /// Open files that are no files, which descriptors name by their place.
    pub objects: Objects,
}

/// What threads share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// PID at home.
    pub pid: i32,
    /// Its guard regions (MADV_GUARD_INSTALL of madvise(2)): start and end, ascending.
    pub guards: Vec<(u64, u64)>,
    /// umask.
    pub umask: u32,
    /// Working directory, absolute.
    pub cwd: Vec<u8>,
    /// Its inode number; 0: not known.
    pub cwd_inode: u64,
    /// The program's file, by its place in the list of files; `None` if it is not known.
    pub exe: Option<u32>,
    /// Actions of signals 1 to 64: handler, flags, restorer, mask, as rt_sigaction(2) has them.
    pub actions: Vec<[u64; 4]>,
    /// ITIMER_REAL, VIRTUAL, PROF: interval and rest, each seconds and microseconds.
    pub itimers: [[u64; 4]; 3],
    /// POSIX timers, ascending.
    pub timers: Vec<Timer>,
    /// Where things lie in memory.
    pub layout: Layout,
    /// The auxiliary vector, as in /proc/PID/auxv.
    pub auxv: Vec<u8>,
    /// The kernel's own pages.
    pub vdso: Option<Vdso>,
    /// Signals that wait for the process, with what they carry (128 bytes each).
    pub pending: Vec<Vec<u8>>,
    /// CPU time that it has used, everywhere ...
    pub used: Used,
    /// ... and as much of that as home's kernel did not count: it ran on other nodes.
    pub used_away: Used,
    /// What it has set by prctl(2): PR_SET_ number ([`SETTINGS`]) and value.
    pub settings: Vec<(u8, u64)>,
    /// Protection keys that it has (pkey_alloc(2)): bit n for key n, 1 to 15.
    pub keys: u16,
    /// Commands of membarrier(2) by which it has registered ([`BARRIERS`]).
    pub barriers: u16,
    /// Who may look into it (PR_GET_DUMPABLE).
    pub dumpable: u8,
    /// Parts of the processor's state that it has asked to use ([`PERMITTED_FEATURES`]).
    pub permitted: u64,
}

/// Commands that register (linux/membarrier.h): GLOBAL_EXPEDITED, PRIVATE_EXPEDITED, ..._SYNC_CORE, ..._RSEQ.
pub const BARRIERS: u16 = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8;

/// Features, by their bits, that a program must ask for (ARCH_REQ_XCOMP_PERM): the data of tiles (AMX).
pub const PERMITTED_FEATURES: u64 = 1 << 18;

/// CPU time, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as getrusage(2) has them")]
pub struct Used {
    pub user_ns: u64,
    pub system_ns: u64,
}

impl Used {
    /// Both together.
    pub fn total_ns(self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }

    /// This and more.
    pub fn and(self, more: Used) -> Used {
        Used {
            user_ns: self.user_ns.saturating_add(more.user_ns),
            system_ns: self.system_ns.saturating_add(more.system_ns),
        }
    }
}

/// Settings of a whole process that are carried: numbers of prctl(2) to ask, and to set (linux/prctl.h): THP_DISABLE, MDWE, MEMORY_MERGE,
/// KEEPCAPS. A room's kernel is asked while home waits for the answer, so none may be one that home answers.
pub const SETTINGS: [(u8, u8); 4] = [(42, 41), (66, 65), (68, 67), (7, 8)];

/// timer_create(2)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// The kernel's number for it.
    pub id: i32,
    /// CLOCK_ number.
    pub clock: i32,
    /// The signal that it sends.
    pub signal: i32,
    /// What that carries.
    pub value: u64,
    /// SIGEV_ bits.
    pub notify: i32,
    /// The thread that gets it, if it is for one.
    pub tid: i32,
    /// Interval, and rest until it ends next, each seconds and nanoseconds.
    pub setting: [u64; 4],
}

/// `struct prctl_mm_map` without its files.
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

/// vvar, vvar_vclock and vdso, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vdso {
    /// First address.
    pub start: u64,
    /// First address behind them.
    pub end: u64,
    /// Where the code begins; `end` if the program has unmapped it.
    pub code: u64,
}

/// General registers, in the order of `user_regs_struct` (sys/user.h).
pub type Registers = [u64; 27];

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// TID at home.
    pub tid: i32,
    /// Name, at most 15 bytes.
    pub comm: Vec<u8>,
    /// General registers, such that the thread goes on in user code.
    pub registers: Registers,
    /// XSAVE area in its standard form.
    pub extended: Vec<u8>,
    /// It makes the call again in which it was, and no handler may run before the kernel has read what the call points to: that lies below its stack.
    pub enters_call: bool,
    /// Blocked signals.
    pub mask: u64,
    /// Alternate signal stack.
    pub stack: Stack,
    /// Address that the kernel clears at the thread's end.
    pub clear_tid: u64,
    /// Nice value.
    pub nice: i32,
    /// How it is scheduled (sched(7)), with SCHED_RESET_ON_FORK; none of real time.
    pub policy: u32,
    /// Class and level of its reading and writing (ioprio_set(2)).
    pub io_priority: u16,
    /// Where it has chosen to run, as bits of words (sched_setaffinity(2)).
    pub processors: Option<Vec<u64>>,
    /// Timer slack, nanoseconds; 0: it is not known, or has none.
    pub slack_ns: u64,
    /// Head and length of the list of robust futexes.
    pub robust: (u64, u64),
    /// Restartable sequences.
    pub rseq: Rseq,
    /// CPU time that it has used, everywhere, nanoseconds ...
    pub used_ns: u64,
    /// ... and on other nodes than home.
    pub used_away_ns: u64,
    /// Signals that wait for the thread, with what they carry (128 bytes each).
    pub pending: Vec<Vec<u8>>,
    /// personality(2)
    pub personality: u32,
    /// What it has set by prctl(2).
    pub settings: ThreadSettings,
}

/// Settings of a thread that few make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSettings {
    /// What reading the clock counter does (PR_GET_TSC); 0: not known.
    pub counter: u8,
    /// What becomes of it when memory breaks (PR_MCE_KILL_GET), if that is known.
    pub broken_memory: Option<u8>,
    /// How it speculates (PR_GET_SPECULATION_CTRL): past stores, at indirect branches, over the first cache; 0: it may not choose.
    pub speculation: [u8; 3],
}

/// sigaltstack(2)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Lowest address.
    pub at: u64,
    /// SS_ flags.
    pub flags: u32,
    /// Bytes.
    pub bytes: u64,
}

/// rseq(2)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rseq {
    /// Address; 0: none is registered.
    pub area: u64,
    /// Bytes.
    pub bytes: u32,
    /// Signature before abort handlers.
    pub signature: u32,
}

/// One memory area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// PROT_ bits.
    pub protection: u8,
    /// What is mapped.
    pub content: Content,
    /// MAP_SHARED (memories, and files that are only read).
    pub shared: bool,
    /// MAP_GROWSDOWN.
    pub grows_down: bool,
    /// MAP_NORESERVE.
    pub no_reserve: bool,
    /// It counts as memory that may be needed (VM_ACCOUNT): it is or was writable. Areas that differ in this alone stay apart.
    pub accounted: bool,
    /// mlock(2)
    pub locked: bool,
    /// MAP_DROPPABLE
    pub droppable: bool,
    /// MADV_ numbers that apply to it.
    pub advice: [u8; 4],
    /// Protection key (pkey_mprotect(2)).
    pub key: u8,
}

impl Area {
    /// Private memory without a name, as mmap(2) makes it.
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

/// What an area shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Zeros, until written.
    Anonymous,
    /// A file from this offset, until written.
    File {
        /// Its place in the list.
        file: u32,
        /// Bytes.
        offset: u64,
    },
    /// Memory of the list of memories, from this offset; until written, if it is not shared.
    Memory {
        /// Its place in the list.
        memory: u32,
        /// Bytes.
        offset: u64,
    },
}

/// A file that lives at home (or is the same everywhere, as /dev/null).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Absolute path.
    pub path: Vec<u8>,
    /// Inode number at home.
    pub inode: u64,
    /// O_ flags to open it with.
    pub flags: i32,
    /// It is not at that path any more: that is what it was called.
    pub removed: bool,
}

/// One descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Its number.
    pub fd: i32,
    /// FD_CLOEXEC.
    pub close_on_exec: bool,
    /// What it is open on.
    pub opened: Opened,
}

/// What a descriptor is open on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opened {
    /// A file of the list; descriptors that name the same place share one open file.
    File {
        /// Its place.
        file: u32,
        /// Offset, bytes.
        offset: u64,
    },
    /// What the deputy has open under this number.
    Home(i32),
    /// An object of the list; descriptors that name the same place share it.
    Made(u32),
}

impl Area {
    /// It shows a memory of the list.
    pub fn shows_memory(&self) -> bool {
        matches!(self.content, Content::Memory { .. })
    }
}

impl Image {
    /// Bytes of address space.
    pub fn bytes(&self) -> u64 {
        self.areas.iter().map(|a| a.end - a.start).sum()
    }
}
