//! What is known of the home's /proc: its nodes, what is open, and the requests that home answers.

use crate::state::answers::Answers;
use crate::state::files::proc::merge;
use crate::state::files::proc::nodes::Nodes;
use crate::state::files::proc::place::Merged;
use homefs::proto::{Attr, EntryOut, OpenOut, fopen};
use os::ptrace::HostTid;
use room_protocol::message::DeviceName;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is known of it.
pub struct Proc {
    pub device: Answers,
    pub state: Mutex<ProcTable>,
}

#[derive(Default)]
pub struct ProcTable {
    pub nodes: Nodes,
    /// Requests that home answers, by their numbers.
    pub asked: HashMap<u64, Step>,
    pub files: HashMap<u64, Arc<Vec<u8>>>,
    pub listings: HashMap<u64, Arc<Vec<DeviceName>>>,
    pub last_handle: u64,
}

/// The use that is made of home's answer.
#[derive(Clone, Debug)]
pub enum Step {
    Lookup(Vec<u8>),
    Attributes(u64),
    Text,
    /// A file that stays at home is opened again: under the name that it has there, or, if it has
    /// none, by this link.
    Again(String),
    List,
    Content,
    /// Asks home about this descriptor of a process here.
    Info(HostTid, i32),
    /// The locks that a process has on what this descriptor shows.
    Locks(HostTid, i32),
    /// Home has written so many bytes about this process.
    Written(i32, usize),
    /// To be put together with what this process' kernel says.
    Merge(HostTid, Merged, merge::Asker),
}

impl Proc {
    /// Serves this FUSE connection.
    pub fn new(device: OwnedFd) -> Proc {
        Proc { device: Answers(device), state: Mutex::default() }
    }

    pub fn lock(&self) -> MutexGuard<'_, ProcTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn open(&self, unique: u64, keep: impl FnOnce(&mut ProcTable, u64)) {
        let fh = {
            let mut state = self.lock();
            state.last_handle += 1;
            let fh = state.last_handle;
            keep(&mut state, fh);
            fh
        };
        self.device.value(unique, &OpenOut { fh, open_flags: fopen::DIRECT_IO | fopen::NOFLUSH, backing_id: 0 });
    }

    pub fn open_file(&self, unique: u64, content: Vec<u8>) {
        self.open(unique, |state, fh| drop(state.files.insert(fh, Arc::new(content))));
    }

    pub fn open_listing(&self, unique: u64, names: Vec<DeviceName>) {
        self.open(unique, |state, fh| drop(state.listings.insert(fh, Arc::new(names))));
    }

    /// Answers a LOOKUP of this path; the kernel may believe the answer for as long as `valid`.
    pub fn found(&self, unique: u64, path: &[u8], attr: Attr, valid: Duration) {
        let nodeid = self.lock().nodes.found(path);
        let attr = Attr { ino: nodeid, ..attr };
        let entry = EntryOut {
            nodeid,
            entry_valid: valid.as_secs(),
            attr_valid: valid.as_secs(),
            entry_valid_nsec: valid.subsec_nanos(),
            attr_valid_nsec: valid.subsec_nanos(),
            attr,
            ..EntryOut::default()
        };
        self.device.value(unique, &entry);
    }

    /// Ends a request that home will not answer with this error.
    pub fn abandon(&self, unique: u64, errno: i32) {
        if self.lock().asked.remove(&unique).is_some() {
            self.device.error(unique, errno);
        }
    }
}
