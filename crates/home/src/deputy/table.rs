//! The deputies of a room, and what is known of the room's bodies: all that one lock guards.

use crate::deputy::closes::Closes;
use crate::deputy::record::Deputy;
use room_protocol::message::{CallId, Credentials, Place, StandinId};
use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// The room's state.
#[derive(Default)]
pub struct DeputyTable {
    /// Processes whose bodies are in the room (or on their way).
    pub deputies: HashMap<i32, Deputy>,
    /// How often the room was told that something has happened to a stand-in.
    pub notices: u64,
    /// Open files of stand-ins, held as long as somebody in the room has them.
    pub anchors: HashMap<StandinId, Anchor>,
    /// Processes that are about to become deputies: the room's empty bodies open files with their
    /// rights already.
    pub coming: HashMap<i32, Credentials>,
    /// Closes under way, and the calls that wait for them.
    pub closes: Closes,
    /// Which thread runs a forwarded call.
    pub calls: HashMap<CallId, (i32, i32)>,
    /// Bodies to be placed when the room stands.
    pub waiting: Vec<Place>,
    /// Whether the room stands.
    pub room: RoomState,
    /// The last number given to a stand-in.
    pub last_standin: u32,
    /// CPU time that the room's bodies had used at the last report, microseconds.
    pub room_us: u64,
    /// Reports of usage so far.
    pub reports: u64,
}

/// Whether bodies can come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RoomState {
    /// The warden has not said that the room stands.
    #[default]
    Making,
    /// Processes can be placed.
    Ready,
    /// Processes cannot be placed, for this reason.
    Lost(String),
}

/// The steward's hold on the open file of a stand-in.
#[derive(Debug)]
pub struct Anchor {
    /// The open file.
    pub file: Arc<OwnedFd>,
    /// The poller watches it.
    pub watched: bool,
    /// The number of the last notice to the room of something that has happened to it.
    pub noticed: u64,
}

impl DeputyTable {
    /// A deputy has a descriptor for this stand-in.
    pub fn took(&mut self, pid: i32, fd: i32, standin: StandinId) {
        if let Some(deputy) = self.deputies.get_mut(&pid) {
            deputy.standins.insert(standin, vec![fd]);
        }
    }

    /// Where the name of its open file can be read, as long as somebody has it.
    pub fn link_to(&self, standin: StandinId) -> Option<String> {
        let anchored = self.anchors.get(&standin).map(|a| format!("/proc/self/fd/{}", a.file.as_raw_fd()));
        anchored.or_else(|| self.holder(0, standin).map(|(pid, fd)| format!("/proc/{pid}/fd/{fd}")))
    }

    /// Some deputy that has a descriptor for it; rather this one.
    pub fn holder(&self, pid: i32, standin: StandinId) -> Option<(i32, i32)> {
        let of = |pid: i32| Some((pid, *self.deputies.get(&pid)?.standins.get(&standin)?.first()?));
        of(pid).or_else(|| self.deputies.keys().find_map(|pid| of(*pid)))
    }
}

impl DeputyTable {
    /// Whether the room was sent a notice of it behind so many; `None`: nobody watches it.
    pub fn noticed_since(&self, number: u64, standin: StandinId) -> Option<bool> {
        self.anchors.get(&standin).filter(|anchor| anchor.watched).map(|anchor| anchor.noticed > number)
    }
}
