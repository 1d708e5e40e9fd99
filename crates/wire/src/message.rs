//! Messages that are not FUSE: what is placed, forwarded, signalled, and how it ended.

mod call;
mod common;
mod errand;
pub mod onward;
mod place;
mod process;
mod queries;

pub use call::{Call, CallId, StandinId};
pub use common::{Common, CommonFile, CommonPair, CommonPipe, Family, LockedFile, MemoryId, OpenAtHome, PairEnd};
pub use errand::Errand;
pub use place::{
    Arrival, Capabilities, Credentials, Descriptor, Directory, Home, HomeDevice, Mount, Place, Program, ToOpen,
};
pub use queries::{DeviceName, DeviceNode, Look};

use serde::{Deserialize, Serialize};

/// Room to home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHome {
    /// First message: who hosts.
    Hello {
        /// The version of this protocol ([`crate::VERSION`]).
        version: u32,
    },
    /// Say what your clocks show, at once.
    Clock,
    /// The room stands; bodies can come.
    RoomReady,
    /// The room could not be made.
    RoomFailed {
        /// What was tried and why it failed.
        reason: String,
    },
    /// The answer to [`ToRoom::Place`]: the program runs, or why it does not.
    Placed {
        /// PID of the process, at home.
        pid: i32,
        /// `Err((errno, what was tried))`.
        result: Result<(), (i32, String)>,
    },
    /// Run this call in the deputy thread `tid` (0: any thread of `pid`).
    Call {
        /// Answered by [`ToRoom::Return`] with the same number.
        id: CallId,
        /// PID of the process, at home.
        pid: i32,
        /// TID of the thread, at home.
        tid: i32,
        /// The call that is meant.
        call: Call,
    },
    /// The body's thread was interrupted: end the call with EINTR unless it is done already.
    Cancel {
        /// The id of the call.
        id: CallId,
    },
    /// A thread of the body wants to make another, or a process.
    Birth {
        /// Answered by [`ToRoom::Return`]: the new number or an error.
        id: CallId,
        /// PID of the process, at home.
        pid: i32,
        /// The thread that asks.
        tid: i32,
        /// What is to be made.
        birth: Birth,
    },
    /// What home made for this was not made here in the end: it vanishes unseen.
    Unborn {
        /// The process that wanted it.
        pid: i32,
        /// The number that it has.
        number: i32,
    },
    /// A signal of job control is about to stop the body, as it does by default: home's kernel
    /// decides. The thread waits for [`ToRoom::Stop`] or [`ToRoom::GoOn`].
    Stops {
        /// PID of the process, at home.
        pid: i32,
        /// TID of the thread, at home.
        tid: i32,
        /// SIGTSTP, SIGTTIN or SIGTTOU.
        signal: i32,
        /// How many SIGCONTs of home's the room has got for this process.
        continued: u32,
    },
    /// The body ignores these signals now (bit n-1 for signal n); the deputy shall too.
    Ignores {
        /// PID of the process, at home.
        pid: i32,
        /// The thread that said so.
        tid: i32,
        /// All that are ignored.
        ignored: u64,
        /// SIGCHLD's SA_NOCLDSTOP and SA_NOCLDWAIT.
        child_flags: u64,
    },
    /// Thread of a body ended, and its TID is free in the room.
    ThreadGone {
        /// PID of the process, at home.
        pid: i32,
        /// TID of the thread, at home.
        tid: i32,
    },
    /// The body ended, and its PID is free in the room.
    Exited {
        /// PID of the process, at home.
        pid: i32,
        /// How it is done.
        how: Ending,
        /// CPU time that the body used, microseconds.
        cpu_us: u64,
        /// Whose doing it was.
        cause: Cause,
    },
    /// The body runs another program now.
    Exec {
        /// PID of the process, at home.
        pid: i32,
        /// Argument strings, each ended by NUL, as in /proc/PID/cmdline.
        arguments: Vec<u8>,
        /// As in /proc/PID/comm.
        comm: Vec<u8>,
        /// Path of the program's file, as /proc/PID/exe says in the room.
        exe: Vec<u8>,
    },
    /// Say what this stand-in is ready for (answered by [`ToRoom::Return`]: poll(2) bits), and from
    /// now on tell its changes by [`ToRoom::Readiness`].
    Watch {
        /// Number of the request.
        id: CallId,
        /// The process that asks.
        pid: i32,
        /// The stand-in that is meant.
        standin: StandinId,
    },
    /// A descriptor of the deputy, which a call returned, has this stand-in from now on.
    Adopt {
        /// PID of the process, at home.
        pid: i32,
        /// Number in its deputy.
        fd: i32,
        /// The stand-in that is meant.
        standin: StandinId,
    },
    /// What is there, below /dev? Answered by [`ToRoom::Return`], whose bytes hold a
    /// [`DeviceNode`], the text of a link, or [`DeviceName`]s.
    LookAt {
        /// Number of the request.
        id: CallId,
        /// The absolute path.
        path: Vec<u8>,
        /// What is asked.
        look: Look,
    },
    /// What is there, below /proc? Looked at with the rights of this process' deputy (0: nobody's).
    /// Answered as [`ToHome::LookAt`]; a file's content comes as its bytes.
    Inspect {
        /// Number of the request.
        id: CallId,
        /// PID of the process that asks.
        pid: i32,
        /// Path below /proc, empty for itself.
        path: Vec<u8>,
        /// What is asked.
        look: Look,
    },
    /// Write this into a file below /proc, with the rights of this process' deputy; nothing: only
    /// open it for writing. Answered by [`ToRoom::Return`], whose bytes are what the file holds
    /// then.
    WriteProc {
        /// Number of the request.
        id: CallId,
        /// The process that writes.
        pid: i32,
        /// The path below /proc.
        path: Vec<u8>,
        /// What is written, at once.
        bytes: Vec<u8>,
    },
    /// Which locks has this process on the file of home's with this number? Answered by
    /// [`ToRoom::Return`], whose bytes are lines as /proc/PID/fdinfo/N has them.
    LocksOf {
        /// Number of the request.
        id: CallId,
        /// The process that has them.
        pid: i32,
        /// Inode number of the file.
        inode: u64,
    },
    /// What is this stand-in's open file called at home (proc_pid_fd(5))? Answered by
    /// [`ToRoom::Return`].
    NameOf {
        /// Number of the request.
        id: CallId,
        /// The stand-in that is meant.
        standin: StandinId,
    },
    /// Nobody in the room has this stand-in any more.
    Close {
        /// The stand-in that is meant.
        standin: StandinId,
    },
    /// The next call of this thread depends on where its body is: paths are relative to it, and
    /// files are made with its umask.
    Surroundings {
        /// PID of the process, at home.
        pid: i32,
        /// TID of the thread, at home.
        tid: i32,
        /// Working directory, absolute.
        cwd: Vec<u8>,
        /// Number of its inode, if the room's kernel does not know any more that the path leads
        /// there.
        inode: Option<u64>,
        /// The mask of umask(2).
        umask: u32,
    },
    /// A call was refused to a guest: kept for `tern why`.
    Refused {
        /// PID of the process, at home.
        pid: i32,
        /// The number of the system call.
        nr: u32,
        /// What happened, in words.
        why: String,
    },
    /// Answer to [`ToRoom::Report`].
    Usage {
        /// Per process: what the hosting kernel says.
        bodies: Vec<BodyUsage>,
    },
    /// So many bytes of pages are in place: the sender may send as many more.
    Taken {
        /// PID of the process, at home.
        pid: i32,
        /// How much it was, bytes.
        bytes: u64,
    },
    /// To [`ToRoom::LayOut`], before the answer: it has these pages from an earlier stay, by
    /// address, each with the first half of its blake3 hash.
    Stocked {
        /// PID of the process, at home.
        pid: i32,
        /// They; at most [`crate::page_frames::STOCKED_PAGES`].
        pages: Vec<(u64, [u8; 16])>,
    },
    /// The answer to [`ToRoom::LayOut`].
    LaidOut {
        /// PID of the process, at home.
        pid: i32,
        /// What happened, in words.
        result: Result<(), String>,
    },
    /// To [`ToRoom::Rebuild`]: the body stands and waits for [`ToRoom::Resume`], or why it does not
    /// (then it is gone).
    Rebuilt {
        /// PID of the process, at home.
        pid: i32,
        /// What happened, in words.
        result: Result<(), String>,
    },
    /// To [`ToRoom::Resume`]: a body that came runs.
    Runs {
        /// PID of the process, at home.
        pid: i32,
        /// Since then, by home's monotonic clock as it is known there: this message may wait for a
        /// processor that the body has.
        since_ns: i64,
    },
    /// To [`ToRoom::Release`]: the body is gone here, and its number is free.
    Left {
        /// PID of the process, at home.
        pid: i32,
    },
    /// The body makes a call that only home can serve: it wants to go there, and waits. If it
    /// cannot, [`ToRoom::Stays`] says why.
    GoesHome {
        /// PID of the process, at home.
        pid: i32,
        /// One that it wants to hold or look into, which comes before it if it is away, too.
        first: Option<i32>,
        /// What it has to do there.
        errand: Errand,
    },
    /// To [`ToRoom::Recall`]: the body is about to be stopped.
    Leaving {
        /// PID of the process, at home.
        pid: i32,
        /// Its own memory, about.
        own_bytes: u64,
    },
    /// To [`ToRoom::Recall`]: all threads of the body stand still, and no call of its is under way
    /// at home: home may stop its deputy.
    Standing {
        /// PID of the process, at home.
        pid: i32,
        /// TIDs of its threads.
        tids: Vec<i32>,
        /// How many [`ToRoom::Readiness`] had come until then.
        noticed: u64,
    },
    /// To [`ToRoom::Recall`]: the image and all pages were sent (but those that follow), and the
    /// body is stopped; or why it cannot leave (then it goes on).
    Whole {
        /// PID of the process, at home.
        pid: i32,
        /// Or why not.
        result: Result<(), crate::Refusal>,
    },
    /// Of a process that goes on to another room.
    Onward {
        /// PID of the process, at home.
        pid: i32,
        /// What was said.
        said: onward::Said,
    },
    /// A body that is to leave, and stands still, has open files in common with others, which stand
    /// still too: from now on home has them, behind stand-ins (answered by [`ToRoom::Shared`]).
    Share {
        /// Who is to leave.
        pid: i32,
        /// The files that are meant.
        files: Vec<Common>,
        /// What pipes hold,
        pipes: Vec<CommonPipe>,
        /// and pairs of sockets.
        pairs: Vec<CommonPair>,
    },
    /// No guest has this file of /dev/shm mapped any more.
    Yielded {
        /// Its inode number.
        inode: u64,
    },
    /// A body that passes descriptors of these files through a socket of home's stands still, with
    /// all who have them: from now on home has them, behind stand-ins (answered by
    /// [`ToRoom::Shared`]).
    Passes {
        /// Process that passes them.
        pid: i32,
        /// The files that are meant.
        files: Vec<Common>,
        /// What pipes hold,
        pipes: Vec<CommonPipe>,
        /// and pairs of sockets.
        pairs: Vec<CommonPair>,
    },
    /// To [`ToRoom::Recall`], before its image: a body that goes home has memory in common with
    /// others, which stand still as long as it is stopped.
    Shares {
        /// Who goes home.
        pid: i32,
        /// They, if it is the first of them: they have to come as well.
        others: Vec<i32>,
        /// What the room knows the image's memories by, in their order. The content of each comes
        /// with the first that has it.
        memories: Vec<MemoryId>,
    },
    /// A body that goes home, and stands still, has files open that may have locks of their own.
    Locked {
        /// Who goes home.
        pid: i32,
        /// The files that are meant.
        files: Vec<LockedFile>,
    },
    /// The body runs, and waits for these pages of those that follow: start and end.
    Fetch {
        /// PID of the process, at home.
        pid: i32,
        /// Where they were when it stopped.
        ranges: Vec<(u64, u64)>,
    },
    /// A frame of pages that followed is in place.
    Filled {
        /// PID of the process, at home.
        pid: i32,
    },
    /// No page is missing any more: all are there, or whose they were has ended.
    Enough {
        /// PID of the process, at home.
        pid: i32,
        /// Whose pages: the number that [`ToRoom::Rebuild`] gave. A body that was called off says
        /// this late, when another of its number comes.
        loan: u32,
    },
    /// No more pages that follow are sent, for none are needed; or why not.
    Drained {
        /// PID of the process, at home.
        pid: i32,
        /// Whose pages, as in [`ToHome::Enough`]: of a try that was given up this may come in the
        /// next one.
        loan: u32,
        /// What happened, in words.
        result: Result<(), String>,
    },
}

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

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// exit status (0..=255).
    Exit(u8),
    /// Killed by this signal.
    Signal(u8),
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

/// Home to room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRoom {
    /// The answer to [`ToHome::Clock`].
    Clock {
        /// What CLOCK_MONOTONIC shows, nanoseconds.
        monotonic_ns: i64,
        /// What CLOCK_BOOTTIME shows, nanoseconds.
        boottime_ns: i64,
        /// What CLOCK_REALTIME shows, nanoseconds.
        realtime_ns: i64,
    },
    /// Make the room: what home looks like.
    Open(Home),
    /// A body will be started under this number, unless its end is ordered first: its process can
    /// be made.
    Expect {
        /// PID that was asked for.
        pid: i32,
    },
    /// Start a body.
    Place(Box<Place>),
    /// The end of a forwarded call.
    Return {
        /// The id of the call.
        id: CallId,
        /// As the kernel returned it: negative is an error number.
        result: i64,
        /// The bytes that the call wrote.
        out: Vec<u8>,
        /// What the call's stand-in is ready for now (poll(2) bits), if it is watched.
        ready: Option<(StandinId, u16)>,
    },
    /// A call has changed what a thread may do at home: its body's thread takes the same rights
    /// before the call, whose end comes next, returns.
    Rights {
        /// TID of the thread, at home.
        tid: i32,
        /// The credentials of the thread.
        credentials: Box<Credentials>,
    },
    /// A signal arrived at the deputy.
    Signal {
        /// PID of the process, at home.
        pid: i32,
        /// The thread, if it was sent to one thread.
        tid: Option<i32>,
        /// `siginfo_t` as the home's kernel gave it (128 bytes).
        info: Vec<u8>,
    },
    /// The deputy is stopped: the body stops too, until a SIGCONT.
    Stop {
        /// PID of the process, at home.
        pid: i32,
    },
    /// Whatever was to stop the body ([`ToHome::Stops`]) did not, or it has been continued.
    GoOn {
        /// PID of the process, at home.
        pid: i32,
    },
    /// The deputy is gone or was killed: end the body.
    Kill {
        /// PID of the process, at home.
        pid: i32,
    },
    /// Something has changed at a watched stand-in.
    Readiness {
        /// The stand-in that is meant.
        standin: StandinId,
        /// What it is ready for now, poll(2) bits.
        events: u16,
    },
    /// The image and all pages of a body that was started to be rebuilt were sent: rebuild it.
    Rebuild {
        /// PID of the process, at home.
        pid: i32,
        /// Pages that were sent while it ran, and are not there any more: address and bytes.
        gone: Vec<(u64, u64)>,
        /// The image, if it has not come in parts: then all that it needs is there.
        image: Vec<u8>,
        /// Who sends the pages that follow, if any do.
        loan: u32,
    },
    /// Home has these pages from before the process left, as in [`ToHome::Stocked`]: of those that
    /// are the same when it comes home, it need only be told that ([`crate::Kind::Stocked`]).
    Stocked {
        /// PID of the process, at home.
        pid: i32,
        /// They; at most [`crate::page_frames::STOCKED_PAGES`].
        pages: Vec<(u64, [u8; 16])>,
        /// What was said before does not count any more.
        first: bool,
    },
    /// What was sent of an image is what the process is at the moment, but for its threads: lay out
    /// its memory, pages follow. A later image may differ.
    LayOut {
        /// PID of the process, at home.
        pid: i32,
        /// Say what it left there when it was there before ([`ToHome::Stocked`]).
        stocked: bool,
    },
    /// So many bytes of pages are in place: the sender may send as many more.
    Taken {
        /// PID of the process, at home.
        pid: i32,
        /// How much it was, bytes.
        bytes: u64,
    },
    /// Before [`ToRoom::Resume`] of one that comes: it has set flags of open files that stay at
    /// home since its stand-ins were opened.
    Flags {
        /// PID of the process, at home.
        pid: i32,
        /// Its descriptors, and which of [`StandinId::flags_there`] are set.
        flags: Vec<(i32, i32)>,
    },
    /// A body that stands or is stopped goes on here.
    Resume {
        /// PID of the process, at home.
        pid: i32,
    },
    /// To [`ToHome::GoesHome`]: it could not be brought home.
    Stays {
        /// PID of the process, at home.
        pid: i32,
        /// What happened, in words.
        why: String,
    },
    /// Stop this body, and send what it is.
    Recall {
        /// PID of the process, at home.
        pid: i32,
        /// If it has so many bytes of its own, pages may follow when it goes on at home
        /// ([`crate::Kind::Later`]).
        follow_bytes: u64,
        /// How its pages go.
        pace: strategy::Pace,
        /// All goes to the other room ([`onward::Order::Connect`]), and nothing follows: a body
        /// with `follow_bytes` of its own goes on at once.
        onward: bool,
        /// It goes home, where what was sent ahead in this try is in place
        /// ([`onward::Order::Homeward`]).
        ahead: Option<onward::Ticket>,
        /// What becomes of those with which it shares memory.
        family: Family,
    },
    /// Of a process that goes on to another room, or whose memory is to go home ahead.
    Onward {
        /// PID of the process, at home.
        pid: i32,
        /// What is to be done.
        order: onward::Order,
    },
    /// Somebody at home waits for a file of /dev/shm that guests have mapped: they come home
    /// ([`ToHome::GoesHome`]), or there are none ([`ToHome::Yielded`]).
    Yield {
        /// Its inode number.
        inode: u64,
    },
    /// To [`ToHome::Share`] and [`ToHome::Passes`]: process, stand-in, and the number of the
    /// deputy's descriptor, of each that has one; or why not.
    Shared {
        /// Who is to leave.
        pid: i32,
        /// Numbers, or why not.
        result: Result<Vec<(i32, StandinId, i32)>, crate::Refusal>,
    },
    /// The process runs here, and waits for these pages of those that follow: start and end.
    Fetch {
        /// PID of the process, at home.
        pid: i32,
        /// Where they were when it stopped.
        ranges: Vec<(u64, u64)>,
    },
    /// The process runs here: what follows may come unasked.
    Push {
        /// PID of the process, at home.
        pid: i32,
    },
    /// A frame of pages that followed is in place.
    Filled {
        /// PID of the process, at home.
        pid: i32,
    },
    /// Pages that were to follow will not come, in words: the body cannot go on.
    Broken {
        /// PID of the process, at home.
        pid: i32,
        /// What happened, in words.
        why: String,
    },
    /// This body goes on elsewhere: it vanishes here, and nothing is told of it.
    Release {
        /// PID of the process, at home.
        pid: i32,
    },
    /// Say what the bodies use ([`ToHome::Usage`]).
    Report,
    /// End the room.
    Close,
}
