//! The device through which the room's kernel asks for stand-ins.

use crate::state::answers::Answers;
use crate::state::files::standins::file_table;
use crate::state::files::standins::file_table::Files;
use crate::state::files::standins::nodes::standin;
use crate::state::files::standins::requests::{StandinRequest, StandinRequestKind};
use crate::state::readiness::Readiness;
use homefs::proto::{self, FileLock, LkOut, OUT_HEADER_BYTES, OpenOut, OutHeader, PollOut, WriteOut};
use os::ptrace::HostTid;
use room_protocol::message::StandinId;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use zerocopy::IntoBytes;

/// What such a structure says.
pub fn lock_of(bytes: &[u8]) -> FileLock {
    let word =
        |n: usize| bytes.get(8 * n..8 * n + 8).map_or(0, |b| b.iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b)));
    let end = if word(2) == 0 { i64::MAX as u64 } else { word(1).saturating_add(word(2) - 1) };
    FileLock { start: word(1), end, kind: (word(0) & 0xffff) as u32, pid: word(3) as u32 }
}

/// The device of the stand-ins' file system.
pub struct Device {
    pub device: Answers,
    pub mount_id: AtomicU64,
    /// The readiness of stand-ins, and the requests that wait for it.
    pub readiness: Readiness,
    /// How often home has said that something has happened.
    pub noticed: AtomicU64,
    /// How often each is open: a guest may open one again by its name in /proc.
    pub opens: Mutex<HashMap<StandinId, u32>>,
    /// Sockets with a time limit: a call on one that a signal interrupts is over, whatever the
    /// handler's flags (sock_intr_errno in net/sock.h).
    pub timed: Mutex<HashSet<StandinId>>,
    /// Held while a request is taken and served.
    pub serving: Mutex<()>,
    /// Held while a guest's call is answered by a descriptor, until the warden has that open no
    /// more.
    pub handing_over: Mutex<()>,
    /// Those that stand for regular files.
    pub files: Files,
}

impl Device {
    /// Serves this FUSE connection.
    pub fn new(device: OwnedFd) -> Device {
        Device {
            device: Answers(device),
            mount_id: AtomicU64::new(0),
            readiness: Readiness::default(),
            noticed: AtomicU64::new(0),
            opens: Mutex::default(),
            timed: Mutex::default(),
            serving: Mutex::default(),
            handing_over: Mutex::default(),
            files: Files::default(),
        }
    }

    /// The number under which the room mounted it.
    pub fn set_mount_id(&self, id: u64) {
        self.mount_id.store(id, Ordering::Relaxed);
    }

    /// Which stand-in lies on this mount with this inode number, if any.
    pub fn standin(&self, mount_id: u64, inode: u64) -> Option<StandinId> {
        (mount_id == self.mount_id.load(Ordering::Relaxed)).then(|| standin(inode)).flatten()
    }

    /// Returns which stand-in a guest's descriptor is, if it is one.
    pub fn standin_of(&self, host: HostTid, fd: i32) -> Option<StandinId> {
        let info = os::process::fd_info(host.0, fd).ok()?;
        self.standin(info.mount_id, info.inode)
    }

    /// Answers a request.
    pub fn reply(&self, bytes: &[u8]) {
        self.device.reply(bytes);
    }

    /// Ends a request with this error, or 0.
    pub fn error(&self, unique: u64, errno: i32) {
        self.device.error(unique, errno);
    }

    /// Answers a request with a structure.
    pub fn value<T: IntoBytes + zerocopy::Immutable>(&self, unique: u64, value: &T) {
        self.device.value(unique, value);
    }

    /// Answers a request with bytes.
    pub fn bytes(&self, unique: u64, bytes: &[u8]) {
        self.device.bytes(unique, bytes);
    }

    /// A stand-in is open, once more.
    pub fn opened(&self, unique: u64, standin: Option<StandinId>) {
        use proto::fopen::{DIRECT_IO, NOFLUSH, PARALLEL_DIRECT_WRITES, STREAM};
        if let Some(standin) = standin {
            *self.opens.lock().unwrap_or_else(PoisonError::into_inner).entry(standin).or_default() += 1;
        }
        // NOFLUSH: this process holds some of these files, and could not die if its death had to
        // wait for an answer of its own.
        let open_flags = DIRECT_IO | PARALLEL_DIRECT_WRITES | NOFLUSH;
        // What has no offset.
        let stream = if standin.is_some_and(StandinId::is_file) { 0 } else { STREAM };
        let open_flags = open_flags | stream;
        self.value(unique, &OpenOut { fh: 0, open_flags, backing_id: 0 });
    }

    /// Ends a request that home has answered.
    pub fn finish(&self, asked: StandinRequest, result: i64, out: &[u8]) {
        if asked.what == StandinRequestKind::File {
            return file_table::answered(&self.files, &self.device, asked.unique, result, out);
        }
        match (asked.what, usize::try_from(result)) {
            (StandinRequestKind::Watch(standin), Ok(revents)) => self.returned(standin, revents as u16),
            (StandinRequestKind::Watch(_), Err(_)) => {}
            (_, Err(_)) => self.error(asked.unique, -result as i32),
            (StandinRequestKind::Read, Ok(n)) => {
                let data = &out[..n.min(out.len())];
                let header = OutHeader { len: (OUT_HEADER_BYTES + data.len()) as u32, error: 0, unique: asked.unique };
                self.reply(&[header.as_bytes(), data].concat());
            }
            (StandinRequestKind::Write, Ok(n)) => self.value(asked.unique, &WriteOut { size: n as u32, padding: 0 }),
            (StandinRequestKind::Lock { asks: false }, Ok(_)) => self.error(asked.unique, 0),
            (StandinRequestKind::Lock { asks: true }, Ok(_)) => self.value(asked.unique, &LkOut { lk: lock_of(out) }),
            (StandinRequestKind::Device | StandinRequestKind::File, Ok(_)) => {}
            (StandinRequestKind::Poll(standin), Ok(revents)) => {
                self.wake(self.readiness.returned(standin, revents as u16));
                self.value(asked.unique, &PollOut { revents: revents as u32, padding: 0 });
            }
        }
    }

    /// Notes that a socket has a time limit, or none.
    pub fn set_timed(&self, standin: StandinId, timed: bool) {
        let mut all = self.timed.lock().unwrap_or_else(PoisonError::into_inner);
        if timed {
            all.insert(standin)
        } else {
            all.remove(&standin)
        };
    }

    /// Whether it has a time limit.
    pub fn is_timed(&self, standin: StandinId) -> bool {
        self.timed.lock().unwrap_or_else(PoisonError::into_inner).contains(&standin)
    }

    /// Whether any has.
    pub fn any_timed(&self) -> bool {
        !self.timed.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub fn wake(&self, handle: Option<u64>) {
        if let Some(handle) = handle {
            let _ = rustix::io::write(&self.device.0, &proto::notify_poll(handle));
        }
    }

    /// Something happened to a stand-in at home: whoever polls looks again.
    pub fn changed(&self, standin: StandinId, events: u16) {
        self.wake(self.readiness.changed(standin, events));
        self.noticed.fetch_add(1, Ordering::Release);
    }

    /// How often home has said so.
    pub fn noticed(&self) -> u64 {
        self.noticed.load(Ordering::Acquire)
    }

    /// A stand-in is to be watched of which home has not said yet what it is ready for.
    pub fn begins_to_watch(&self, standin: StandinId) -> bool {
        self.readiness.begins(standin)
    }

    /// The readiness of a stand-in after a call.
    pub fn returned(&self, standin: StandinId, events: u16) {
        self.wake(self.readiness.returned(standin, events));
    }

    /// Something of it waits in the room to be taken, or no more.
    pub fn unclaimed(&self, standin: StandinId, any: bool) {
        self.wake(self.readiness.unclaimed(standin, any));
    }

    /// Waits until the requests that the kernel has sent are served: what a guest closed before its
    /// call is closed at home before it, too. None of them takes long.
    pub fn settle(&self) {
        // A guest may have closed what the warden is about to close.
        drop(self.handing_over.lock().unwrap_or_else(PoisonError::into_inner));
        let pending = || {
            let _serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
            let mut polled = [PollFd::new(&self.device.0, PollFlags::IN)];
            rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok()
                && polled[0].revents().contains(PollFlags::IN)
        };
        while pending() {
            std::thread::yield_now();
        }
    }
}
