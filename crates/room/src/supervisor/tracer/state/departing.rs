//! How far each body is that leaves, or that stands still for one that does.

use crate::state::streams::NewStream;
use crate::state::transfer::direct_links::DirectLink;
use crate::supervisor::describe_guest::Looked;
use crate::supervisor::sharers::common_files::{CommonOpenFile, Sought};
use crate::supervisor::sharers::watched::Watch;
use crate::supervisor::tracer::state::memory_group::MemoryGroups;
use crate::supervisor::tracer::state::passing::Passing;
use checkpoint::{Collected, Headstart, Slept};
use image::Image;
use migration_plan::Pace;
use os::awake::Awake;
use os::ptrace::Stopped;
use os::warm::Standby;
use room_protocol::message::{Family, LockedFile, StandinId};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Those that leave.
#[derive(Debug, Default)]
pub struct Departing {
    pub states: HashMap<i32, DepartureState>,
    /// The outlines that home has of bodies that may go to another room.
    pub outlines: HashMap<i32, Image>,
    /// Of those that leave together.
    pub memory_groups: MemoryGroups,
}

/// How far one is.
#[derive(Debug)]
pub enum DepartureState {
    /// These have stopped; others will.
    Stopping(Vec<Stopped>, Departure),
    /// All have stopped, but another body may have to, too
    /// ([`crate::supervisor::tracer::sharing`]).
    Standing(Vec<Stopped>, Departure),
    /// All is collected and on its way; job control had stopped it.
    Collected { collected: Box<Collected>, was_stopped: bool, _awake: Option<Awake> },
}

/// How it goes.
#[derive(Debug)]
pub struct Departure {
    /// Job control had stopped it.
    pub stopped: bool,
    /// For how long its threads had been asleep.
    pub slept: Slept,
    /// The body does not leave, but stands still for this one.
    pub leader: Option<i32>,
    /// The body does not leave, but stands still until open files of its are exchanged.
    pub passing: Option<Passing>,
    /// Files that it has in common with others.
    pub asked: Option<Takeover>,
    /// Open files of its that may have locks of their own, once they were looked for.
    pub locked: Option<Vec<LockedFile>>,
    /// The destination of the processes with which it shares memory,
    pub family: Family,
    /// and who they are, when all of them stand still.
    pub relatives: Vec<i32>,
    /// Its memory areas before it was stopped.
    pub looked: Option<Looked>,
    /// If it has so many bytes of its own, pages may follow when it goes on at home.
    pub follow_bytes: u64,
    /// How its pages go.
    pub pace: Pace,
    /// The process goes to another room.
    pub onward: Option<Onward>,
    /// The process goes home, where this is in place.
    pub ahead: Headstart,
    /// A thread that will send it.
    pub sender: Option<Standby>,
    /// While it stands still.
    pub awake: Option<Awake>,
}

/// Why a body stays that nobody can send.
pub const NO_THREAD: &str = "no thread to send it";

impl Departure {
    /// The body stands still for this one.
    pub fn following(slept: Slept, leader: i32) -> Departure {
        Departure { leader: Some(leader), ..Departure::leaving(slept, Family::Stays) }
    }

    /// Open files of the body are exchanged, and it stands still for itself.
    pub fn passing(slept: Slept, pid: i32, passing: Passing) -> Departure {
        Departure { passing: Some(passing), ..Departure::following(slept, pid) }
    }

    /// The open files of its that have to become home's.
    pub fn sought(&self) -> Sought {
        let may_have_sockets = self.looked.as_ref().is_none_or(|looked| looked.has_sockets);
        match &self.passing {
            Some(passing) => passing.sought(),
            None if may_have_sockets => Sought::CommonAndPairs,
            None => Sought::Common,
        }
    }

    /// Begins the leaving of a process.
    pub fn leaving(slept: Slept, family: Family) -> Departure {
        Departure {
            stopped: false,
            slept,
            leader: None,
            passing: None,
            asked: None,
            locked: None,
            family,
            relatives: Vec::new(),
            looked: None,
            follow_bytes: 0,
            pace: Pace::default(),
            onward: None,
            ahead: Headstart::default(),
            sender: None,
            awake: None,
        }
    }
}

/// Why what its deputy has to do first cannot be done.
pub const STOPPED: &str = "it is stopped (by job control or SIGSTOP): continue it first";

/// In the place of the signal that a held thread gets: it is to leave.
pub const LEAVING: i32 = -1;

/// Where a body goes that leaves for another room.
#[derive(Debug)]
pub struct Onward {
    /// Objects of the body that were made for it there.
    pub outline: Image,
    /// The way to the other room.
    pub way: DirectLink,
    /// Pages that went by it already.
    pub ahead: Headstart,
}

/// The files that take the place of others, most of which home was asked to take over.
#[derive(Debug)]
pub struct Takeover {
    pub files: Vec<(StandinId, Arc<OwnedFd>, CommonOpenFile)>,
    /// Streams that are opened when their guests have their ends, and their stand-ins' files.
    pub streams: Vec<(NewStream, Arc<OwnedFd>)>,
    pub watches: Vec<Watch>,
}
