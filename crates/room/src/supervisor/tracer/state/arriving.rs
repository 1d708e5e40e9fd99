//! How far each body is that comes from elsewhere.

use crate::supervisor::tracer::state::arriving_groups::ArrivingGroups;
use checkpoint::{Given, Inside};
use image::Image;
use os::awake::Awake;
use os::ptrace::Stopped;
use room_protocol::message::{Arrival, Capabilities};
use std::collections::HashMap;
use std::sync::Arc;

/// An empty process whose memory is laid out.
#[derive(Debug)]
pub struct Shell {
    pub inside: Inside,
    /// Descriptors that it has, of whatever use.
    pub descriptors: Vec<i32>,
    /// Capabilities that it keeps.
    pub kept: Capabilities,
    /// The process has the guests' filter.
    pub confined: bool,
}

/// A body whose memory is laid out, and whose pages come.
#[derive(Debug)]
pub struct MappedBody {
    /// How home has announced it.
    pub arrival: Arrival,
    /// Descriptors and memories that it was given.
    pub given: Given,
    /// Its process, still empty.
    pub shell: Box<Shell>,
    /// The image for which its memory is laid out.
    pub image: Arc<Image>,
}

/// Those that come.
#[derive(Debug, Default)]
pub struct Arriving {
    pub states: HashMap<i32, ArrivalState>,
    /// Those of them that share memory with others.
    pub groups: ArrivingGroups,
}

/// How far one is.
#[derive(Debug)]
pub enum ArrivalState {
    /// Its empty process is being made.
    Made(Arrival),
    /// The empty process is stopped.
    Empty(Arrival, Stopped),
    /// Its memory is laid out.
    Mapped(MappedBody),
    /// The body stands, and waits for home's word.
    Stands { threads: Vec<Stopped>, _awake: Option<Awake> },
}

impl Arriving {
    /// One is expected.
    pub fn expect(&mut self, pid: i32, arrival: Arrival) {
        self.states.insert(pid, ArrivalState::Made(arrival));
    }

    /// The process is gone.
    pub fn forget(&mut self, pid: i32) {
        self.states.remove(&pid);
        self.groups.forget(pid);
    }

    /// Bodies that stand, to be let run.
    pub fn take_standing(&mut self, pid: i32) -> Option<Vec<Stopped>> {
        match self.states.remove(&pid)? {
            ArrivalState::Stands { threads, .. } => {
                self.groups.forget(pid);
                Some(threads)
            }
            other => {
                self.states.insert(pid, other);
                None
            }
        }
    }
}
