//! What stands behind the room's stand-ins: descriptors of deputies, and the steward's own hold on
//! their open files ("anchors"). A body may get a stand-in from another body without home hearing
//! of it; then its deputy takes the anchor when it first needs it.

use super::deputies::{Deputy, Job, Phase, Purpose};
use super::orders::Order;
use super::shared::{Shared, Table};
use super::{channel, closing};
use room_protocol::ToRoom;
use room_protocol::message::{Call, CallId, StandinId};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::time::Instant;

/// The steward's hold on the open file of a stand-in.
#[derive(Debug)]
pub struct Anchor {
    file: Arc<OwnedFd>,
    /// The poller watches it.
    watched: bool,
    /// The number of the last notice to the room of something that has happened to it.
    noticed: u64,
}

impl Table {
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
    fn holder(&self, pid: i32, standin: StandinId) -> Option<(i32, i32)> {
        let of = |pid: i32| Some((pid, *self.deputies.get(&pid)?.standins.get(&standin)?.first()?));
        of(pid).or_else(|| self.deputies.keys().find_map(|pid| of(*pid)))
    }
}

/// A descriptor that a call returned has a stand-in now. It is held at once: a child whose deputy
/// was made before may ask for it next.
pub fn adopt(room: &Shared, pid: i32, fd: i32, standin: StandinId) {
    room.table().took(pid, fd, standin);
    room.anchor(pid, fd, standin);
}

/// Puts the deputy's own numbers into a call. `Err`: a stand-in that it has no descriptor for.
pub fn resolve(call: &mut Call, deputy: &Deputy) -> Result<(), StandinId> {
    let number = |standin: StandinId| deputy.standins.get(&standin).and_then(|fds| fds.first()).copied().ok_or(standin);
    if let Some(standin) = call.standin {
        call.args[0] = number(standin)? as u64;
    }
    if let Some((at, standin)) = call.also
        && let Some(argument) = call.args.get_mut(usize::from(at))
    {
        *argument = number(standin)? as u64;
    }
    for (at, standin) in &call.passed {
        let at = *at as usize;
        if let Some(word) = call.data.get_mut(at..at + 4) {
            word.copy_from_slice(&number(*standin)?.to_le_bytes());
        }
    }
    Ok(())
}

/// Has a deputy thread take the descriptor of a stand-in, for a call that needs it.
pub fn take(anchors: &HashMap<StandinId, Anchor>, standin: StandinId, id: CallId, call: Call) -> Result<Job, i32> {
    let anchor = anchors.get(&standin).ok_or(libc::EBADF)?;
    let file = anchor.file.try_clone().map_err(|_| libc::EMFILE)?;
    let purpose = Purpose::Take { id, standin, call: Box::new(call) };
    Ok(Job::with_fd(channel::order(abi::OP_TAKE, [0; 2], &[]), file, purpose))
}

/// Nobody in the room has it any more: the deputies close theirs. What the program does next it
/// must find done, so this is obeyed before any later call of its; a process that had it too, and
/// waits for something else, is interrupted for it.
pub fn close(room: &Shared, standin: StandinId) {
    // Before the deputies: the last one to close it is theirs, and its peers are to be told then.
    room.release(standin);
    for deputy in room.table().deputies.values_mut().filter(|d| d.phase == Phase::Away) {
        for fd in deputy.standins.remove(&standin).unwrap_or_default() {
            if fd == libc::STDERR_FILENO {
                deputy.stderr = deputy.pidfd.get_fd(fd).ok().map(|file| (Instant::now(), file));
            }
            let call = Call::new(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
            if let Some(packet) = channel::call(&call) {
                deputy.give_soon(Job::new(packet, Purpose::Nothing));
            }
        }
    }
    // Once more, behind a request to watch it that is still to be obeyed.
    room.poller.order(Order::Release(standin));
}

impl Shared {
    /// Holds the open file.
    fn anchor(&self, pid: i32, fd: i32, standin: StandinId) {
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

    /// What a watched stand-in is ready for now.
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
            // What is told next comes behind it.
            self.notices(Vec::new());
        }
    }

    /// As [`Shared::notices`], in its thread.
    pub fn count_notices(&self, standins: &[StandinId]) -> u64 {
        self.tell_changes();
        self.begin_watching(standins);
        self.table().notices
    }
}

impl Table {
    /// Whether the room was sent a notice of it behind so many; `None`: nobody watches it.
    pub fn noticed_since(&self, number: u64, standin: StandinId) -> Option<bool> {
        self.anchors.get(&standin).filter(|anchor| anchor.watched).map(|anchor| anchor.noticed > number)
    }
}
