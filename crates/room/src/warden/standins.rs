//! Stand-ins: in the room an open file, at home a descriptor of the deputy. A file system of its
//! own serves them, mounted nowhere.
//!
//! Node 1 is the root; stand-in N is node N + 2, and so is its inode number, by which a guest's
//! descriptor is recognised.

pub mod files;
mod locks;

use super::answers::Answers;
use super::guests::{Who, blocked_stops};
use super::readiness::Readiness;
use super::shared::{Pending, Shared};
use super::spares::is_own;
use super::tracer::orders::{Afterwards, Order};
use homefs::proto::{
    self, Attr, AttrOut, EntryOut, InitIn, InitOut, LkOut, NO_BLOCKS, OUT_HEADER_BYTES, Opcode, OpenOut, OutHeader,
    PollIn, PollOut, ReadIn, Request, WriteIn, WriteOut,
};
use os::ptrace::HostTid;
use os::waiting;
use room_protocol::ToHome;
use room_protocol::message::{Call, StandinId};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use zerocopy::IntoBytes;

/// Bytes of one read or write: a packet to the deputy carries them.
const IO_BYTES: u32 = 128 << 10;
/// Attributes of a stand-in never change, but for those of files.
const FOR_EVER_S: u64 = 1 << 32;
/// The size that a stand-in shows: no offset is behind its end.
const HUGE: u64 = 1 << 62;

/// The device of the stand-ins' file system.
pub struct Device {
    device: Answers,
    mount_id: AtomicU64,
    /// What is ready, and who waits for it.
    readiness: Readiness,
    /// How often home has said that something has happened.
    noticed: AtomicU64,
    /// How often each is open: a guest may open one again by its name in /proc.
    opens: Mutex<HashMap<StandinId, u32>>,
    /// Sockets with a time limit: a call on one that a signal interrupts is over, whatever the
    /// handler's flags (sock_intr_errno in net/sock.h).
    timed: Mutex<HashSet<StandinId>>,
    /// Held while a request is taken and served.
    serving: Mutex<()>,
    /// Those that stand for regular files.
    pub files: files::Files,
}

/// What the kernel waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The process that waits.
    pub pid: i32,
    /// Its thread, if a signal may interrupt that.
    pub host: Option<HostTid>,
    /// The request that is answered.
    pub unique: u64,
    /// What it was.
    pub what: What,
}

/// Kind of request that home answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The request is READ.
    Read,
    /// The request is WRITE.
    Write,
    /// POLL of this stand-in.
    Poll(StandinId),
    /// The first state of this stand-in, whose POLL was answered before.
    Watch(StandinId),
    /// A lock is set, or asked for.
    Lock {
        /// Whether an answer is asked for.
        asks: bool,
    },
    /// About /dev: [`super::devices`] knows.
    Device,
    /// About a regular file: [`files`] knows.
    File,
}

fn node(standin: StandinId) -> u64 {
    u64::from(standin.0) + 2
}

/// The stand-in that a node is, if it is one.
pub fn standin(node: u64) -> Option<StandinId> {
    node.checked_sub(2).and_then(|n| u32::try_from(n).ok()).map(StandinId)
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
            files: files::Files::default(),
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
    pub fn finish(&self, asked: Asked, result: i64, out: &[u8]) {
        if asked.what == What::File {
            return files::answered(self, asked.unique, result, out);
        }
        match (asked.what, usize::try_from(result)) {
            (What::Watch(standin), Ok(revents)) => self.returned(standin, revents as u16),
            (What::Watch(_), Err(_)) => {}
            (_, Err(_)) => self.error(asked.unique, -result as i32),
            (What::Read, Ok(n)) => {
                let data = &out[..n.min(out.len())];
                let header = OutHeader { len: (OUT_HEADER_BYTES + data.len()) as u32, error: 0, unique: asked.unique };
                self.reply(&[header.as_bytes(), data].concat());
            }
            (What::Write, Ok(n)) => self.value(asked.unique, &WriteOut { size: n as u32, padding: 0 }),
            (What::Lock { asks: false }, Ok(_)) => self.error(asked.unique, 0),
            (What::Lock { asks: true }, Ok(_)) => self.value(asked.unique, &LkOut { lk: locks::lock_of(out) }),
            (What::Device | What::File, Ok(_)) => {}
            (What::Poll(standin), Ok(revents)) => {
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

    fn wake(&self, handle: Option<u64>) {
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

    /// What a stand-in is ready for after a call.
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

/// Serves the device until the room is gone; one such thread is enough, for none of its answers
/// waits.
pub fn serve(room: &Shared) {
    let device = &room.standins;
    let mut buffer = vec![0; proto::MAX_REQUEST_BYTES];
    if let Err(e) = rustix::io::ioctl_fionbio(&device.device.0, true) {
        tracing::error!("the stand-ins' device: {e}");
    }
    loop {
        let _ = rustix::event::poll(&mut [PollFd::new(&device.device.0, PollFlags::IN)], None);
        let serving = device.serving.lock().unwrap_or_else(PoisonError::into_inner);
        let read = rustix::io::read(&device.device.0, &mut buffer);
        match read {
            Ok(n) => match Request::parse(&buffer[..n]) {
                Ok(request) => {
                    let asker = room.process_of(request.header.pid);
                    // Whoever asks waits in the kernel, where no signal ends it.
                    if room.contain(asker, || handle(room, &request)).is_none() {
                        device.error(request.header.unique, libc::EIO);
                    }
                }
                Err(e) => tracing::error!("stand-ins: {e}"),
            },
            Err(rustix::io::Errno::NODEV) => return,
            // Not mounted yet: the porter is about to.
            Err(rustix::io::Errno::PERM) => {
                drop(serving);
                std::thread::sleep(homefs::client::UNTIL_MOUNTED);
            }
            Err(rustix::io::Errno::INTR | rustix::io::Errno::NOENT | rustix::io::Errno::AGAIN) => {}
            Err(e) => {
                tracing::error!("reading requests for stand-ins: {e}");
                return;
            }
        }
    }
}

fn handle(room: &Shared, request: &Request<'_>) {
    if super::devices::serve(room, request) {
        return;
    }
    let unique = request.header.unique;
    let device = &room.standins;
    if let Some(done) = files::serve(room, request) {
        return done.unwrap_or_else(|errno| device.error(unique, errno));
    }
    let done = match request.opcode {
        Some(Opcode::Init) => {
            request.args().take().map(|init: InitIn| device.value(unique, &init_reply(&init))).map_err(|_| libc::EPROTO)
        }
        Some(Opcode::Lookup) => lookup(request).map(|entry| {
            let attr = device.files.shown(entry.nodeid, entry.attr);
            device.value(unique, &EntryOut { attr, ..entry });
        }),
        Some(Opcode::Getattr) => {
            let attr_valid = attributes_valid_s(standin(request.header.nodeid));
            let attr = device.files.shown(request.header.nodeid, attributes(request.header.nodeid));
            let out = AttrOut { attr_valid, attr, ..AttrOut::default() };
            device.value(unique, &out);
            Ok(())
        }
        Some(Opcode::Open) => {
            device.opened(unique, standin(request.header.nodeid));
            Ok(())
        }
        Some(Opcode::Read) => read(room, request),
        Some(Opcode::Write) => write(room, request),
        Some(Opcode::Poll) => poll(room, request),
        Some(opcode @ (Opcode::Getlk | Opcode::Setlk | Opcode::Setlkw)) => locks::serve(room, request, opcode),
        Some(Opcode::Interrupt) => return interrupt(room, request),
        Some(Opcode::Forget | Opcode::BatchForget) => return,
        Some(Opcode::Release) => {
            release(room, request);
            device.error(unique, 0);
            Ok(())
        }
        // ENOSYS: the kernel asks no more. Nothing is kept back here that a close could flush.
        Some(Opcode::Flush) => Err(libc::ENOSYS),
        Some(Opcode::Setattr) => Err(libc::EINVAL),
        // ENOSYS would be said of the whole file system, stand-ins of files among it.
        Some(Opcode::Fallocate) => Err(libc::ESPIPE),
        Some(Opcode::Getxattr | Opcode::Listxattr | Opcode::Setxattr | Opcode::Removexattr) => Err(libc::EOPNOTSUPP),
        Some(Opcode::Statfs) => {
            device.value(unique, &NO_BLOCKS);
            Ok(())
        }
        _ => Err(libc::ENOSYS),
    };
    if let Err(errno) = done {
        device.error(unique, errno);
    }
}

const FLAGS: u64 = {
    use proto::init::{ATOMIC_O_TRUNC, BIG_WRITES, FLOCK_LOCKS, MAX_PAGES, POSIX_LOCKS};
    BIG_WRITES | MAX_PAGES | ATOMIC_O_TRUNC | POSIX_LOCKS | FLOCK_LOCKS
};

fn init_reply(init: &InitIn) -> InitOut {
    InitOut {
        major: proto::KERNEL_VERSION,
        minor: init.minor.min(proto::KERNEL_MINOR_VERSION),
        max_readahead: 0,
        flags: FLAGS as u32,
        max_background: 64,
        congestion_threshold: 48,
        max_write: IO_BYTES,
        time_gran: 1,
        max_pages: (IO_BYTES / 4096) as u16,
        ..InitOut::default()
    }
}

fn attributes(node: u64) -> Attr {
    let (mode, size) = if node == proto::ROOT_ID { (libc::S_IFDIR | 0o755, 0) } else { (libc::S_IFREG | 0o666, HUGE) };
    Attr { ino: node, mode, size, nlink: 1, blksize: 4096, ..Attr::default() }
}

fn lookup(request: &Request<'_>) -> Result<EntryOut, i32> {
    let name = request.args().name().map_err(|_| libc::ENOENT)?;
    let number: u32 = name.to_str().ok().and_then(|n| n.parse().ok()).ok_or(libc::ENOENT)?;
    Ok(EntryOut { entry_valid: FOR_EVER_S, ..entry(StandinId(number)) })
}

/// What a lookup yields that finds a stand-in, this time.
pub fn entry(standin: StandinId) -> EntryOut {
    let nodeid = node(standin);
    EntryOut { nodeid, attr_valid: attributes_valid_s(Some(standin)), attr: attributes(nodeid), ..EntryOut::default() }
}

/// For how long its attributes hold: a file's change at home.
fn attributes_valid_s(standin: Option<StandinId>) -> u64 {
    if standin.is_some_and(StandinId::is_file) { 0 } else { FOR_EVER_S }
}

/// Who asks for a stand-in, and what it stands for.
struct Asker {
    who: Who,
    host: HostTid,
    standin: StandinId,
    terminal: bool,
}

fn asker(room: &Shared, request: &Request<'_>) -> Result<Asker, i32> {
    let guests = room.guests();
    let host = guests.host(request.header.pid as i32).ok_or(libc::ESRCH)?;
    let who = guests.who(host).ok_or(libc::ESRCH)?;
    let standin = standin(request.header.nodeid).ok_or(libc::EINVAL)?;
    let guest = guests.get(who.pid).ok_or(libc::ESRCH)?;
    Ok(Asker { who, host, standin, terminal: guest.is_terminal(standin) })
}

fn ask(room: &Shared, asker: &Asker, unique: u64, what: What, call: Call) {
    // A terminal does not stop those who block its signals.
    let blocked = if asker.terminal { blocked_stops(asker.host) } else { 0 };
    let (who, host) = (asker.who, Some(asker.host));
    room.call_home(who, Call { blocked, ..call }, Pending::Standin(Asked { pid: who.pid, host, unique, what }));
}

fn read(room: &Shared, request: &Request<'_>) -> Result<(), i32> {
    let arguments: ReadIn = request.args().take().map_err(|_| libc::EPROTO)?;
    let asker = asker(room, request)?;
    // A socket's reader is content with what there is; after a request that was filled the kernel
    // would go on, and wait.
    let size = if is_own(asker.standin) { arguments.size.min(IO_BYTES - 1) } else { arguments.size.min(IO_BYTES) };
    let call = Call {
        pointers: 0b10,
        out_bytes: size,
        out_per_result: 1,
        standin: Some(asker.standin),
        ..Call::new(libc::SYS_read, [0, 0, u64::from(size), 0, 0, 0])
    };
    ask(room, &asker, request.header.unique, What::Read, call);
    Ok(())
}

fn write(room: &Shared, request: &Request<'_>) -> Result<(), i32> {
    let mut args = request.args();
    let arguments: WriteIn = args.take().map_err(|_| libc::EPROTO)?;
    let data = args.bytes(arguments.size as usize).map_err(|_| libc::EPROTO)?.to_vec();
    let asker = asker(room, request)?;
    let call = Call {
        pointers: 0b10,
        data,
        standin: Some(asker.standin),
        ..Call::new(libc::SYS_write, [0, 0, u64::from(arguments.size), 0, 0, 0])
    };
    ask(room, &asker, request.header.unique, What::Write, call);
    Ok(())
}

fn poll(room: &Shared, request: &Request<'_>) -> Result<(), i32> {
    let arguments: PollIn = request.args().take().map_err(|_| libc::EPROTO)?;
    let Asker { who, host, standin, .. } = asker(room, request)?;
    let unique = request.header.unique;
    let handle = (arguments.flags & proto::POLL_SCHEDULE_NOTIFY != 0).then_some(arguments.kh);
    match room.standins.readiness.polled(standin, arguments.events as u16, handle) {
        Some(revents) => {
            room.standins.value(unique, &PollOut { revents: u32::from(revents), padding: 0 });
        }
        None if adds_to_epoll(host) => {
            let known = room.standins.readiness.known(standin);
            room.standins.value(unique, &PollOut { revents: u32::from(known.unwrap_or(0)), padding: 0 });
            if known.is_none() {
                let what = What::Watch(standin);
                let id = room.expect(Pending::Standin(Asked { pid: who.pid, host: None, unique: 0, what }));
                room.tell(&ToHome::Watch { id, pid: who.pid, standin });
            }
        }
        None => {
            let what = What::Poll(standin);
            let id = room.expect(Pending::Standin(Asked { pid: who.pid, host: Some(host), unique, what }));
            room.tell(&ToHome::Watch { id, pid: who.pid, standin });
        }
    }
    Ok(())
}

/// Whether a thread asks because it adds a file to an epoll instance. If that lies in another
/// instance, the kernel holds a mutex of the whole machine until the answer comes (`epnested_mutex`
/// in fs/eventpoll.c): so the answer is what is known here, and what home says later is told then.
fn adds_to_epoll(host: HostTid) -> bool {
    let line = std::fs::read_to_string(format!("/proc/{}/syscall", host.0)).unwrap_or_default();
    waiting::Call::read(&line).is_some_and(|call| call.number == libc::SYS_epoll_ctl)
}

fn interrupt(room: &Shared, request: &Request<'_>) {
    let Ok(arguments) = request.args().take::<proto::InterruptIn>() else { return };
    // What is done with a file is soon done, and no signal ends it.
    if room.standins.files.is_asked(arguments.unique) {
        return;
    }
    match room.asked_by(arguments.unique) {
        Some((id, Some(host))) => room.orders.give(Order::Interrupted { host, then: Afterwards::Cancel(id) }),
        Some((id, None)) => room.tell(&ToHome::Cancel { id }),
        None => {}
    }
}

/// The last duplicate of an open stand-in was closed.
fn release(room: &Shared, request: &Request<'_>) {
    let Some(standin) = standin(request.header.nodeid) else { return };
    let mut opens = room.standins.opens.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(count) = opens.get_mut(&standin).filter(|count| **count > 1) {
        *count -= 1;
        return;
    }
    opens.remove(&standin);
    drop(opens);
    room.guests().forget(standin);
    room.standins.readiness.forget(standin);
    room.standins.set_timed(standin, false);
    room.standins.files.forget(standin);
    room.tell(&ToHome::Close { standin });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(standin(node(StandinId(7))), Some(StandinId(7)));
        assert_eq!(standin(1), None);
        assert_eq!(standin(u64::MAX), None);
    }
}
