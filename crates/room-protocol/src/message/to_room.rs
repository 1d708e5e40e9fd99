//! What a home tells its room.

use super::*;

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
    /// Home has these pages from before the process left, as in [`ToHome::PeerPages`]: of those
    /// that are the same when it comes home, it need only be told that
    /// ([`crate::Kind::PeerPages`]).
    PeerPages {
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
        /// Say what it left there when it was there before ([`ToHome::PeerPages`]).
        stocked: bool,
        /// If it left nothing, fetch the pages of this process, and say that they are there.
        sibling: Option<Box<onward::Sibling>>,
    },
    /// Before the last image of a body that comes with others, which share memory with it. The
    /// content of a memory comes with the first of them that has it; the others map that.
    Memories {
        /// PID of the process, at home.
        pid: i32,
        /// The number of the try in which they move; home never uses it again.
        group: u32,
        /// The identities of its memories at home, in the order of the image.
        memories: Vec<MemoryId>,
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
        /// The failure, in words.
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
        pace: migration_plan::Pace,
        /// All goes to the other room ([`onward::Order::Connect`]), and nothing follows: a body
        /// with `follow_bytes` of its own goes on at once.
        onward: bool,
        /// It goes home, where what was sent ahead in this try is in place
        /// ([`onward::Order::Homeward`]).
        ahead: Option<onward::Ticket>,
        /// The destination of the processes with which it shares memory.
        family: Family,
    },
    /// The room at the other end of this way waits until this one has learnt of all changes until
    /// here: tell it so, by the way.
    Fence {
        /// The number of the way.
        way: u64,
        /// The number of that room's question.
        number: u64,
    },
    /// About a way to another room of this home, for streams.
    Way {
        /// The number of the way: both rooms know it by this.
        way: u64,
        /// The order about it.
        order: onward::WayOrder,
    },
    /// Of a process that goes on to another room, or whose memory is to go home ahead.
    Onward {
        /// PID of the process, at home.
        pid: i32,
        /// What is to be done.
        order: onward::Order,
    },
    /// A process at home waits for a file that guests have mapped shared: they come home
    /// ([`ToHome::GoesHome`]), or there are none ([`ToHome::Yielded`]).
    Yield {
        /// The file that is held.
        file: HeldFile,
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
        /// The failure, in words.
        why: String,
    },
    /// This body goes on elsewhere: it vanishes here, and nothing is told of it.
    Release {
        /// PID of the process, at home.
        pid: i32,
    },
    /// The home or the room's node is about to be suspended: all bodies stand still, and a silent
    /// link does not count as lost, until [`ToRoom::Wake`]. Answered by [`ToHome::Suspended`].
    Suspend {
        /// The room ends if it hears nothing for so long, milliseconds.
        for_ms: u32,
    },
    /// The suspension is over: the bodies go on. Answered by [`ToHome::Awake`].
    Wake,
    /// Say what the bodies use ([`ToHome::Usage`]).
    Report,
    /// Say which calls a process has made in the room ([`ToHome::Calls`]).
    CountCalls {
        /// PID of the process, at home.
        pid: i32,
        /// Which calls are meant.
        whose: CallsOf,
    },
    /// End the room.
    Close,
}
