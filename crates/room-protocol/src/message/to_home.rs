//! What a room tells its home.

use super::*;

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
    /// May this stand-in be a stream (`relay`)? Answered by [`ToRoom::Return`]: 1 if it is a
    /// connected stream socket that nobody but bodies of this room has, and that a pair of sockets
    /// can stand for.
    MayStream {
        /// Number of the request.
        id: CallId,
        /// The stand-in that is meant.
        standin: StandinId,
    },
    /// The answer to [`WayOrder::Connect`](onward::WayOrder::Connect); later an error: the way
    /// broke.
    Way {
        /// The number of the way.
        way: u64,
        /// An error is in words.
        result: Result<(), String>,
    },
    /// The room has learnt something from home, and is to send bytes to another room: home tells
    /// that room all changes of files first ([`ToRoom::Fence`]).
    Fence {
        /// The way to the other room.
        way: u64,
        /// The number of the question.
        number: u64,
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
        /// The failure, in words.
        why: String,
    },
    /// Answer to [`ToRoom::Report`].
    Usage {
        /// Per process: what the hosting kernel says.
        bodies: Vec<BodyUsage>,
        /// CPU time that all bodies of the room have used, those that have ended or left included,
        /// microseconds; 0 if the hosting kernel does not count it.
        room_us: u64,
    },
    /// Answer to [`ToRoom::CountCalls`].
    Calls {
        /// PID of the process, at home.
        pid: i32,
        /// Its calls since it came to the room; at most [`CALL_COUNTS_MAX`].
        rows: Vec<CallCount>,
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
    PeerPages {
        /// PID of the process, at home.
        pid: i32,
        /// They; at most [`crate::page_frames::STOCKED_PAGES`].
        pages: Vec<(u64, [u8; 16])>,
    },
    /// The answer to [`ToRoom::LayOut`].
    LaidOut {
        /// PID of the process, at home.
        pid: i32,
        /// The failure, in words.
        result: Result<(), String>,
    },
    /// To [`ToRoom::Rebuild`]: the body stands and waits for [`ToRoom::Resume`], or why it does not
    /// (then it is gone).
    Rebuilt {
        /// PID of the process, at home.
        pid: i32,
        /// The failure, in words.
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
    /// No guest has this file, which home holds for the room, mapped any more.
    Yielded {
        /// The file that is held.
        file: HeldFile,
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
        /// The failure, in words.
        result: Result<(), String>,
    },
    /// To [`ToRoom::Suspend`]: the bodies stand still.
    Suspended,
    /// To [`ToRoom::Wake`]: the bodies go on.
    Awake,
}
