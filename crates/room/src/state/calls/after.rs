//! What follows from the result of a forwarded call: memory that it wrote, descriptors that it
//! made, more to send.

use crate::state::calls::compared::Compared;
use crate::state::calls::marshal::Back;
use crate::state::calls::message::incoming::Incoming;
use crate::state::calls::message::outgoing::Outgoing;
use crate::state::calls::message::received::Received;
use crate::state::calls::message::series::Series;
use crate::state::calls::scheduled::Follow;
use crate::state::guests::Who;
use os::process::Limit;
use os::ptrace::HostTid;
use room_protocol::message::StandinId;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The work that is due when a call has succeeded.
#[derive(Clone, Debug)]
pub enum After {
    /// These bytes go into the guest's memory.
    Write(Vec<Back>),
    /// The same; if home fails, the hosting kernel makes the call.
    WriteElseHere(Vec<Back>),
    /// The hosting kernel makes the same call.
    Here,
    /// The same, if home said that there is no shared memory of this key there; else its number is
    /// home's.
    HereIfAbsent {
        /// PID of the caller, at home.
        pid: i32,
        /// The call makes memory that is not there yet, or fails.
        makes: bool,
    },
    /// The process goes home for its call, if what that is about is there.
    HomeIfThere {
        /// PID of the caller, at home.
        pid: i32,
        /// The number that it has.
        nr: u32,
    },
    /// Home's open file has other flags now: so has the stand-in, as far as the hosting kernel
    /// knows them.
    Flags(Arc<NewFlags>),
    /// Home's open file is somewhere else now: so is the hosting kernel's, if it comes to the same
    /// offset. (It does not if others have moved home's.)
    Sought {
        /// The stand-in of the file.
        standin: StandinId,
        /// Where the kernel here comes to, if that is known.
        expected: Option<u64>,
    },
    /// The thread here keeps its capabilities through a change of user, or does not, as at home
    /// (PR_SET_KEEPCAPS).
    KeepsCapabilities(bool),
    /// A thread here gets the nice value that its deputy has.
    Nice {
        /// TID of the thread on this node.
        host: HostTid,
        /// The value that is set.
        value: i32,
    },
    /// Home has said what this is ready for, before the hosting kernel asks.
    Watched(StandinId),
    /// A thread here is scheduled as its deputy.
    Scheduled(Follow),
    /// These bytes go into the guest's memory, and a process that may live here has another limit.
    Limited(Limited, Vec<Back>),
    /// Home lets the caller know: this is the result, ...
    Result(i64),
    /// ... or what the kernel here says of these.
    Compare(Compared),
    /// The result is a descriptor of the deputy.
    Descriptor(Arc<Made>),
    /// The same; its thread takes it when its own call is over, and gets the number there.
    Owed {
        /// The thread whose call it is.
        who: Who,
        /// Where in its memory.
        number_at: u64,
    },
    /// A message was received.
    Received(Arc<Incoming>),
    /// Home says what the descriptors are that came with it.
    Looking(Box<Received>),
    /// A message was sent, or the first part of one.
    Sent(Box<Outgoing>),
    /// One of several messages was sent or received.
    Series(Box<Series>),
    /// The hosting kernel makes the call, if home says so; else it is made at home.
    HereElseHome {
        /// Process that makes it.
        pid: i32,
        /// The number of the system call.
        nr: u32,
        /// The file that the call is about, for people.
        file: Option<Vec<u8>>,
    },
    /// A System V object was asked.
    Ipc(IpcStep),
}

/// Flags that a stand-in gets (F_SETFL).
#[derive(Debug)]
pub struct NewFlags {
    /// The stand-in's open file.
    pub file: OwnedFd,
    /// The flags that are set or cleared.
    pub which: i32,
    /// Those of them that are set.
    pub to: i32,
}

/// A limit that home has set.
#[derive(Clone, Copy, Debug)]
pub struct Limited {
    /// Process or thread of home's.
    pub target: i32,
    /// Number of the limit (`RLIMIT_`).
    pub which: u32,
    /// What it is now.
    pub limit: Limit,
}

/// A descriptor that a call makes.
#[derive(Clone, Debug)]
pub struct Made {
    /// The thread whose call it is.
    pub who: Who,
    /// Whether SOCK_NONBLOCK was given.
    pub nonblocking: bool,
    /// Whether SOCK_CLOEXEC was given.
    pub close_on_exec: bool,
    /// Where it was taken from, if it would be lost with its call.
    pub listener: Option<StandinId>,
    /// Other bytes that the call wrote.
    pub back: Vec<Back>,
}

impl After {
    /// Home has done its part, and the hosting kernel makes the same call.
    pub fn goes_on_here(&self, result: i64) -> bool {
        match self {
            After::Here | After::HereElseHome { .. } => result >= 0,
            After::HereIfAbsent { .. } => result == -i64::from(libc::ENOENT),
            After::Watched(_) => true,
            After::WriteElseHere(_) => {
                ![-i64::from(libc::EFAULT), -i64::from(libc::EINTR)].contains(&result) && result < 0
            }
            _ => false,
        }
    }

    /// Tells whether the work touches the guest, so that it is left to the thread that may wait.
    pub fn takes_time(&self, result: i64) -> bool {
        match self {
            After::Write(back) | After::WriteElseHere(back) => result >= 0 && !back.is_empty(),
            After::Here | After::Flags(_) | After::Sought { .. } | After::Watched(_) => false,
            After::KeepsCapabilities(_)
            | After::Nice { .. }
            | After::Limited(..)
            | After::Scheduled(_)
            | After::Result(_)
            | After::Compare(_)
            | After::Descriptor(_)
            | After::Owed { .. }
            | After::Received(_) => result >= 0,
            After::Sent(outgoing) => outgoing.is_part(),
            After::Series(_) | After::HereIfAbsent { .. } | After::Ipc(_) | After::Looking(_) => true,
            After::HomeIfThere { .. } => result >= 0,
            After::HereElseHome { .. } => result < 0,
        }
    }
}

/// The step that follows when home has answered.
#[derive(Clone, Copy, Debug)]
pub enum IpcStep {
    /// A message goes to this address: its type, and as many bytes as the result says.
    Received {
        /// The address to write to.
        to: u64,
    },
    /// The set of semaphores is known: all their values are read or set, at the address that is the
    /// last argument.
    Counted {
        /// The thread that calls.
        who: Who,
        /// The arguments of its semctl(2).
        args: [u64; 4],
    },
}
