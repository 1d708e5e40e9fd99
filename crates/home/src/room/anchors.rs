//! The steward's hold on the open files of stand-ins ("anchors"): which are held, which are
//! watched, and how the room hears of changes.

use crate::closing;
use crate::deputy::table::Anchor;
use crate::room::orders::Order;
use crate::room::state::Room;
use room_protocol::ToRoom;
use room_protocol::message::{CallId, StandinId};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, mpsc};

impl Room {
    /// Holds the open file.
    pub fn anchor(&self, pid: i32, fd: i32, standin: StandinId) {
        let Some(pidfd) = self.table().deputies.get(&pid).map(|d| d.pidfd.clone()) else { return };
        let file = pidfd.get_fd(fd);
        // After that: what a program holds that the deputy has executed is not the body's.
        match (file, self.check_deputy(pid)) {
            (Ok(file), Ok(())) => self.hold(standin, file),
            // The process has ended, most often.
            (Err(e), _) => tracing::debug!("{e}"),
            (_, Err(e)) => tracing::debug!("{e}"),
        }
    }

    /// Holds this open file. Before the room hears of the stand-in: a body that inherits it may ask
    /// for it at once, and its deputy have been made when nobody had it.
    pub fn hold(&self, standin: StandinId, file: OwnedFd) {
        self.table().anchors.insert(standin, Anchor { file: Arc::new(file), watched: false, noticed: 0 });
    }

    /// Holds it no more.
    pub fn release(&self, standin: StandinId) {
        let Some(Anchor { file, watched, .. }) = self.table().anchors.remove(&standin) else { return };
        if watched {
            self.poller.unwatch(file.as_fd());
        }
        if os::fds::is_pipe(file.as_fd()) {
            closing::briefly(move || drop(file));
        }
    }

    /// Lets go of all that a process had open here that runs elsewhere now. Its body here is still
    /// to end, and where the process runs it may be the last to close a file. Where the room has
    /// other bodies, one of them may have got a file from this one: then the room tells when nobody
    /// there has it any more.
    pub fn let_go(&self, had: impl IntoIterator<Item = StandinId>) {
        if self.table().deputies.is_empty() {
            had.into_iter().for_each(|standin| self.release(standin));
        }
    }

    /// Says what a stand-in is ready for, and watches it from now on. This and what follows runs in
    /// the poller's thread, so that what it says of readiness is in the order of what happened.
    pub fn watch(&self, id: CallId, pid: i32, standin: StandinId) {
        if !self.table().anchors.contains_key(&standin) {
            let holder = self.table().holder(pid, standin);
            holder.into_iter().for_each(|(pid, fd)| self.anchor(pid, fd, standin));
        }
        self.begin_watching(&[standin]);
        let found = self.table().anchors.get(&standin).map(|a| a.file.clone());
        let Some(file) = found else {
            return self.tell(&ToRoom::Return { id, result: i64::from(libc::POLLNVAL), out: Vec::new(), ready: None });
        };
        let ready = os::fds::ready(file.as_fd());
        self.tell(&ToRoom::Return { id, result: i64::from(ready), out: Vec::new(), ready: None });
    }

    /// Watches these from now on, if it does not yet. What they are ready for already is told to
    /// who asks, and no change.
    fn begin_watching(&self, standins: &[StandinId]) {
        let mut begun = Vec::new();
        for standin in standins {
            if let Some(anchor) = self.table().anchors.get_mut(standin).filter(|anchor| !anchor.watched) {
                anchor.watched = self.poller.watch(anchor.file.as_fd(), *standin);
                begun.push(*standin);
            }
        }
        if !begun.is_empty() {
            self.poller
                .edges()
                .into_iter()
                .filter(|standin| !begun.contains(standin))
                .for_each(|standin| self.changed(standin));
        }
    }

    /// Asks what a watched stand-in is ready for now.
    pub fn ready_now(&self, standin: StandinId) -> Option<(StandinId, u16)> {
        let file = self.table().anchors.get(&standin).filter(|a| a.watched)?.file.clone();
        Some((standin, os::fds::ready(file.as_fd())))
    }

    /// Tells of all that has happened until now.
    pub fn tell_changes(&self) {
        self.poller.edges().into_iter().for_each(|standin| self.changed(standin));
    }

    /// Something happened to it.
    pub fn changed(&self, standin: StandinId) {
        let Some((standin, events)) = self.ready_now(standin) else { return };
        {
            let mut table = self.table();
            table.notices += 1;
            let number = table.notices;
            table.anchors.get_mut(&standin).into_iter().for_each(|anchor| anchor.noticed = number);
        }
        self.tell(&ToRoom::Readiness { standin, events });
    }

    /// Watches these from now on, and says how many notices the room was sent of all that has
    /// happened until now. For other threads than the poller's.
    pub fn notices(&self, standins: Vec<StandinId>) -> Option<u64> {
        let (done, is_done) = mpsc::channel();
        self.poller.order(Order::Notices { standins, done });
        is_done.recv().ok()
    }

    /// Tells the room that something has happened to these, which it may not know. For other
    /// threads than the poller's.
    pub fn notice(&self, standins: Vec<StandinId>) {
        if !standins.is_empty() {
            self.poller.order(Order::Notice(standins));
            // The next message comes behind it.
            self.notices(Vec::new());
        }
    }

    /// As [`Room::notices`], in its thread.
    pub fn count_notices(&self, standins: &[StandinId]) -> u64 {
        self.tell_changes();
        self.begin_watching(standins);
        self.table().notices
    }
}
