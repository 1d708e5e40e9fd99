//! What is known of the home's /dev: its paths, and the requests that home answers.

use crate::state::files::devices::attributes;
use crate::state::files::devices::paths::Paths;
use crate::state::guests::Who;
use os::areas::Area;
use os::ptrace::HostTid;
use room_protocol::message::{CallId, DeviceName, StandinId};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is known of it.
#[derive(Default)]
pub struct Devices {
    pub state: Mutex<DeviceTable>,
}

#[derive(Default)]
pub struct DeviceTable {
    pub paths: Paths,
    /// Requests that home answers, by their numbers.
    pub asked: HashMap<u64, Step>,
    /// The directories that are open.
    pub listings: HashMap<u64, Vec<DeviceName>>,
    pub last_listing: u64,
    /// Calls for attributes of stand-ins that home is asked.
    pub attributes: HashMap<CallId, u32>,
    /// `st_dev` of what is below /dev in the room.
    pub dev: u64,
}

/// The use that is made of home's answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// LOOKUP of this path; the flags if it is about to be opened.
    Lookup(Vec<u8>, Option<i32>),
    Attributes(u64),
    Link,
    List,
    /// OPEN of what stands for a device, by this thread.
    Open(StandinId, HostTid, Who),
}

impl Devices {
    pub fn lock(&self) -> MutexGuard<'_, DeviceTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The room's /dev is mounted; `st_dev` of what is there.
    pub fn mounted(&self, dev: u64) {
        self.lock().dev = dev;
    }

    /// Returns whether a memory area shows one of the room's stand-ins.
    pub fn show_in(&self, area: &Area) -> bool {
        let (major, minor) = area.device;
        self.lock().dev == rustix::fs::makedev(major, minor)
    }

    /// Home is asked this.
    pub fn asked(&self, id: CallId, nr: u32) {
        if attributes::are_asked_by(nr) {
            self.lock().attributes.insert(id, nr);
        }
    }

    /// Home has answered: a device is on the room's /dev, where its name is found.
    pub fn completed(&self, id: CallId, out: &mut [u8]) {
        let mut state = self.lock();
        if let Some(nr) = state.attributes.remove(&id) {
            attributes::place(nr, out, state.dev);
        }
    }
}
