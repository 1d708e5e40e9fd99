//! The room's side of home files: reads requests from the kernel's mounts, forwards them to home,
//! and writes the replies back.
//!
//! The warden holds the `/dev/fuse` descriptors (one per home file system) and owns the connection
//! to home. Requests and replies pass as the kernel's raw bytes; only INIT is answered here. A
//! thread of its own applies invalidations in order, because the kernel may block it until a
//! pending request has been answered. See `order` for the replies that may overtake invalidations.

mod bearing;
mod behind;
mod dirs;
mod idle;
mod init;
mod late;
mod local;
mod mount;
mod order;
mod peek;
mod promises;
mod readers;

pub use late::LateReply;

use crate::invalidation::{Invalidation, What};
use crate::offer::Offer;
use crate::proto::{
    self, BatchForgetIn, ForgetOne, FsyncIn, InHeader, LK_FLOCK, LkIn, MAX_REQUEST_BYTES, OUT_HEADER_BYTES, Opcode,
    OpenOut, RELEASE_FLOCK_UNLOCK, ReleaseIn, ReplyBuf, Request, fopen,
};
use bearing::Bearing;
use behind::{Behind, Promise};
use dirs::Dirs;
use idle::{Files, Opening, Release};
use local::Locals;
use mount::Mount;
use order::{Blocks, Locked, NameAction, ReplyOrder};
use readers::READERS;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

/// The connection to home.
pub trait Uplink: Send + Sync {
    /// Sends one request of the room's kernel. The thread that read the request from the kernel
    /// calls this; it must send at once.
    fn request(&self, mount: u16, bytes: &[u8]);
    /// Sends one request that the room has answered, or is about to answer, itself. Home serves the
    /// request before it takes the next message from the room.
    fn behind(&self, mount: u16, bytes: &[u8]);
    /// Tells home that all invalidations up to this number are applied.
    fn applied(&self, seq: u64);
    /// Gives the line of `/proc/TID/syscall` of this thread (its id in the room), if available. It
    /// is asked for when a thread looks up a FIFO that it may be about to open, and when the kernel
    /// looks for file capabilities. With `None`, the latter costs a round trip, and a guest that
    /// opens a FIFO by path gets one of the room.
    fn current_call(&self, tid: u32) -> Option<String> {
        let _ = tid;
        None
    }
    /// Tells that a FIFO with this inode number is about to be opened. The room's kernel sees it as
    /// a regular file.
    fn disguised(&self, inode: u64) {
        let _ = inode;
    }
    /// Tells that a lock of the open file itself (flock(2), F_OFD_SETLK) is requested: by its node,
    /// and its handle at home.
    fn locks(&self, node: u64, fh: u64) {
        let _ = (node, fh);
    }
    /// Tells that this open file is closed.
    fn closed(&self, node: u64, fh: u64) {
        let _ = (node, fh);
    }
    /// Tells that this thread syncs an open file. Returns true if the call only serves to identify
    /// the open file.
    fn tells(&self, tid: u32, node: u64, fh: u64) -> bool {
        let _ = (tid, node, fh);
        false
    }
    /// Takes the reply to an interrupted request. The code that decides about a restart must see
    /// the thread stop before the thread continues.
    fn interrupted(&self, tid: u32, reply: LateReply) {
        let _ = tid;
        reply.give();
    }
    /// Tells whether this thread must execute programs at home, whatever it executes.
    fn executes_at_home(&self, tid: u32) -> bool {
        let _ = tid;
        false
    }
    /// Takes the reply to a thread that executes a program which only home can execute. The reply
    /// refuses it.
    fn begins_at_home(&self, tid: u32, reply: LateReply) {
        let _ = tid;
        reply.give();
    }
    /// Runs `work`, which serves a request of this thread. Returns false if it panicked; only that
    /// thread loses by it.
    fn contain(&self, tid: u32, work: &mut dyn FnMut()) -> bool {
        let _ = tid;
        work();
        true
    }
    /// Takes the reply to a thread that wrote to a FIFO without readers: the thread gets SIGPIPE,
    /// and then the reply.
    fn broken_pipe(&self, tid: u32, reply: LateReply) {
        let _ = tid;
        reply.give();
    }
}

/// The time after which a reader checks again whether its device is mounted. Before the mount
/// reading fails with EPERM, and nothing tells when it is done.
pub const UNTIL_MOUNTED: Duration = Duration::from_micros(200);

/// The longest time for which the removal or renaming of a directory waits for earlier
/// invalidations, which may in turn wait for this directory.
const UNTIL_LOCKED: Duration = Duration::from_millis(10);

/// The longest time for which the content of a file waits for earlier invalidations of names: a
/// listing of their directory may wait for this file's pages.
const UNTIL_LISTED: Duration = Duration::from_secs(1);

/// The room's end of all mounts of one home.
pub struct Client {
    mounts: Vec<Arc<Mount>>,
    uplink: Arc<dyn Uplink>,
    order: Mutex<ReplyOrder>,
    applied: AtomicU64,
    applied_changed: Condvar,
    queue: Mutex<Queue>,
    queued: Condvar,
    locals: Option<Locals>,
    files: Mutex<Files>,
    behind: Mutex<Behind>,
    dirs: Mutex<Dirs>,
    /// Home has served all that was promised.
    settled: Condvar,
}

/// What the reply to a request needs to know about it.
struct UnderWay {
    blocks: Blocks,
    opening: Option<Opening>,
    /// The thread that waits for the reply.
    caller: u32,
    /// The thread that writes to a FIFO; 0 for other requests.
    fifo_writer: u32,
    bearing: Bearing,
}

impl UnderWay {
    fn promised(promise: Promise) -> UnderWay {
        let (blocks, bearing) = (Blocks::default(), Bearing::Promised(promise));
        UnderWay { blocks, opening: None, caller: 0, fifo_writer: 0, bearing }
    }

    fn is_answered(&self) -> bool {
        matches!(self.bearing, Bearing::Promised(_))
    }
}

#[derive(Default)]
struct Queue {
    items: VecDeque<(u64, Invalidation)>,
    closed: bool,
}

/// Locks a mutex, even if a holder panicked: every critical section is a few plain assignments, so
/// the data is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Client {
    /// Starts to serve. `devices` are the mounts' `/dev/fuse` descriptors in the order of home's
    /// exports. Reader threads end when their mount is gone; the other threads end with
    /// [`Client::close`]. `root` is the root directory of this node's own files, which are read
    /// instead of equal files of home; without it all files are read from home.
    pub fn start(devices: Vec<OwnedFd>, uplink: Arc<dyn Uplink>, root: Option<OwnedFd>) -> io::Result<Arc<Client>> {
        let mounts = devices.into_iter().map(|device| Arc::new(Mount::new(device))).collect();
        let client = Arc::new(Client {
            mounts,
            uplink,
            order: Mutex::default(),
            applied: AtomicU64::new(0),
            applied_changed: Condvar::new(),
            queue: Mutex::default(),
            queued: Condvar::new(),
            locals: root.map(Locals::new),
            files: Mutex::default(),
            behind: Mutex::default(),
            dirs: Mutex::default(),
            settled: Condvar::new(),
        });
        for mount in 0..client.mounts.len() {
            for reader in 0..READERS {
                let client = client.clone();
                let read = move || client.read_requests(mount, reader);
                std::thread::Builder::new().name(format!("fuse-{mount}")).spawn(read)?;
            }
        }
        let applier = client.clone();
        std::thread::Builder::new().name("fuse-inval".into()).spawn(move || applier.apply_invalidations())?;
        if client.locals.is_some() {
            let looker = client.clone();
            std::thread::Builder::new().name("fuse-local".into()).spawn(move || {
                looker.locals.iter().for_each(|locals| locals.serve(|seq| looker.wait_applied(seq)));
            })?;
        }
        Ok(client)
    }

    /// Takes a reply from home. `seq` is the number of the newest invalidation when the reply was
    /// made; that invalidation must have been passed to [`Client::invalidate`] before.
    pub fn deliver(self: &Arc<Self>, mount: u16, bytes: &[u8], seq: u64) {
        let (Some(at), Some(unique)) = (self.mounts.get(usize::from(mount)), proto::reply_unique(bytes)) else {
            tracing::warn!(mount, bytes = bytes.len(), "home sent bytes that are no reply");
            return;
        };
        let Some(request) = lock(&at.under_way).remove(&unique) else {
            tracing::debug!(mount, unique, "home answered a request that is not pending");
            return;
        };
        let is_answered = request.is_answered();
        let UnderWay { blocks, opening, caller, fifo_writer, bearing } = request;
        let changed = self.bear(mount, bearing, bytes);
        if is_answered {
            return;
        }
        let bytes = changed.as_deref().unwrap_or(bytes);
        if let (Some(opening), Some(fh)) = (opening, cached_handle(bytes)) {
            lock(&self.files).opened(opening, fh);
        }
        if fifo_writer != 0 && proto::reply_error(bytes) == Some(libc::EPIPE) {
            return self.uplink.broken_pipe(fifo_writer, LateReply { mount: at.clone(), bytes: bytes.to_vec() });
        }
        if caller != 0 && proto::reply_error(bytes) == Some(libc::EINTR) {
            return self.uplink.interrupted(caller, LateReply { mount: at.clone(), bytes: bytes.to_vec() });
        }
        if proto::reply_error(bytes) == Some(proto::BEGINS_AT_HOME) {
            return self.begins_at_home(at, unique, caller);
        }
        let stand_in = if blocks.lookup_tid != 0 { self.stand_in(blocks.lookup_tid, bytes) } else { None };
        let bytes = stand_in.as_deref().unwrap_or(bytes);
        let waits = seq > self.applied.load(Ordering::Acquire) && self.waits(mount, blocks, seq, bytes);
        let taken = !waits && at.give(bytes);
        if let Some(name) = blocks.name
            && lock(&self.order).answered(name, taken.then_some((seq, bytes)))
        {
            self.applied_changed.notify_all();
        }
    }

    fn begins_at_home(&self, mount: &Arc<Mount>, unique: u64, caller: u32) {
        let bytes = proto::status(unique, libc::EPERM).to_vec();
        self.uplink.begins_at_home(caller, LateReply { mount: mount.clone(), bytes });
    }

    /// Keeps a reply made at `seq` until that invalidation is applied, if it must wait. Returns
    /// whether it does.
    fn waits(self: &Arc<Self>, mount: u16, mut blocks: Blocks, seq: u64, bytes: &[u8]) -> bool {
        if lock(&self.order).depends_on_locks(mount, blocks, seq) {
            match blocks.locked {
                Locked::ByCallOf(tid) => {
                    let names = self.uplink.current_call(tid).is_some_and(|line| peek::names_a_file(&line));
                    blocks.locked = if names { Locked::Some } else { Locked::None };
                }
                Locked::Named => return self.give_soon(mount, seq, bytes.to_vec(), UNTIL_LOCKED),
                Locked::None | Locked::Some => {}
            }
        }
        let mut order = lock(&self.order);
        if order.overtakes(mount, blocks, seq) || !order.locks_pages_before_names(mount, blocks, seq) {
            return order.must_wait(mount, blocks, seq, bytes);
        }
        drop(order);
        self.give_soon(mount, seq, bytes.to_vec(), UNTIL_LISTED)
    }

    /// Gives a reply when `seq` is applied, or after `longest`: the invalidation may wait for this
    /// reply, because the locked directories are not known.
    fn give_soon(self: &Arc<Self>, mount: u16, seq: u64, bytes: Vec<u8>, longest: Duration) -> bool {
        let client = self.clone();
        let give = move || {
            let is_late = |order: &mut ReplyOrder| order.applied() < seq && !order.closed;
            drop(client.applied_changed.wait_timeout_while(lock(&client.order), longest, is_late));
            client.mounts[usize::from(mount)].write(&bytes);
        };
        std::thread::Builder::new().name("fuse-late".into()).spawn(give).is_ok()
    }

    fn stand_in(&self, tid: u32, reply: &[u8]) -> Option<Vec<u8>> {
        let (changed, inode) = peek::stand_in(reply)?;
        let opens = self.uplink.current_call(tid).is_some_and(|line| peek::is_open(&line));
        opens.then(|| {
            self.uplink.disguised(inode);
            changed
        })
    }

    /// Takes an invalidation from home. Numbers ascend.
    pub fn invalidate(&self, seq: u64, invalidation: Invalidation) {
        if let Some(locals) = &self.locals
            && matches!(invalidation.what, What::Attr { .. } | What::Content { .. })
        {
            locals.forget(invalidation.mount, invalidation.node);
        }
        lock(&self.dirs).hear(&invalidation);
        let mut queue = lock(&self.queue);
        lock(&self.order).announce(seq, &invalidation);
        queue.items.push_back((seq, invalidation));
        self.queued.notify_one();
    }

    /// Takes an offer from home, made at `seq`.
    pub fn offer(&self, seq: u64, offer: Offer) {
        if let Some(locals) = &self.locals {
            locals.offer(seq, offer);
        }
    }

    /// Gives the number of bytes of home's files that were read from equal files of this node.
    pub fn local_bytes(&self) -> u64 {
        self.locals.as_ref().map_or(0, Locals::bytes)
    }

    /// Tells whether all invalidations up to `seq` are applied.
    pub fn is_applied(&self, seq: u64) -> bool {
        self.applied.load(Ordering::Acquire) >= seq
    }

    /// Waits until all invalidations up to `seq` are applied. Call this before a guest may learn
    /// anything from a message that home sent after `seq`.
    pub fn wait_applied(&self, seq: u64) {
        if self.applied.load(Ordering::Acquire) >= seq {
            return;
        }
        let mut order = lock(&self.order);
        while order.applied() < seq && !order.closed {
            order = self.applied_changed.wait(order).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the applying thread. Pending and later requests fail with `ENOTCONN`, because home is
    /// gone.
    pub fn close(&self) {
        lock(&self.queue).closed = true;
        self.queued.notify_all();
        lock(&self.order).closed = true;
        self.applied_changed.notify_all();
        self.locals.iter().for_each(Locals::close);
        for mount in &self.mounts {
            let waits = |(unique, request): (u64, UnderWay)| (!request.is_answered()).then_some(unique);
            let uniques: Vec<u64> = lock(&mount.under_way).drain().filter_map(waits).collect();
            uniques.into_iter().for_each(|unique| mount.write(&proto::status(unique, libc::ENOTCONN)));
        }
        lock(&self.behind).give_up();
        self.settled.notify_all();
    }

    fn read_requests(&self, index: usize, reader: usize) {
        let mount = &self.mounts[index];
        mount.readers.begin(reader);
        let mut buf = vec![0; MAX_REQUEST_BYTES];
        let mut reply = ReplyBuf::default();
        loop {
            match rustix::io::read(&mount.device, &mut buf[..]) {
                Ok(len) => {
                    let asked = &buf[..len];
                    let tid = proto::asker(asked);
                    let mut serve = || self.forward(index as u16, mount, reader, asked, &mut reply);
                    if !self.uplink.contain(tid, &mut serve) {
                        mount.fail(asked);
                    }
                    mount.readers.has_sent(reader);
                }
                // The request was interrupted before it was read (ENOENT), or a signal arrived:
                // read on.
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                // The device is not mounted yet.
                Err(rustix::io::Errno::PERM) if !lock(&self.order).closed => std::thread::sleep(UNTIL_MOUNTED),
                Err(errno) => {
                    tracing::debug!(index, %errno, "the mount is gone");
                    return;
                }
            }
        }
    }

    fn forward(&self, index: u16, mount: &Arc<Mount>, reader: usize, bytes: &[u8], reply: &mut ReplyBuf) {
        let Ok(request) = Request::parse(bytes) else {
            tracing::error!(index, bytes = bytes.len(), "the kernel sent a malformed FUSE request");
            return;
        };
        let unique = request.header.unique;
        mount.readers.takes(reader, unique);
        if fifo_writer(&request) != 0 || is_about_locks(&request) {
            mount.readers.await_older(reader, unique);
        }
        match request.opcode {
            Some(Opcode::Init) => return mount.write(&mount.negotiate(&request)),
            Some(op) if op.is_one_way() => self.forgotten(index, &request),
            Some(Opcode::Read) if self.locals.as_ref().is_some_and(|locals| locals.read(index, &request, reply)) => {
                return mount.write(reply.finish(unique));
            }
            _ if peek::asks_for_capabilities(&request) && self.is_kernel_asking(request.header.pid) => {
                return mount.write(&proto::status(unique, libc::ENODATA));
            }
            Some(Opcode::Release) if self.keeps_open(index, &request) => {
                return mount.write(&proto::status(unique, 0));
            }
            _ if self.promises(index, mount, &request, bytes) => return,
            _ if self.knows(index, mount, &request, reply) => return,
            Some(Opcode::Fsync) if self.is_told_by(&request) => return mount.write(&proto::status(unique, 0)),
            _ => {
                if let (Some(Opcode::Setlk | Opcode::Setlkw), Ok(asked)) =
                    (request.opcode, request.args().take::<LkIn>())
                {
                    lock(&self.files).hold(index, asked.fh);
                }
                if peek::is_to_execute(&request) && self.uplink.executes_at_home(request.header.pid) {
                    return self.begins_at_home(mount, unique, request.header.pid);
                }
                let opening = Opening::of(index, &request);
                if let Some(fh) = opening.and_then(|opening| lock(&self.files).take(opening)) {
                    reply.clear();
                    reply.push(&OpenOut { fh, open_flags: fopen::KEEP_CACHE | fopen::NOFLUSH, backing_id: 0 });
                    return mount.write(reply.finish(unique));
                }
                let blocks = Blocks::of(index, &request);
                blocks.name.into_iter().for_each(|name| lock(&self.order).asks(name));
                let (caller, fifo_writer) = (request.header.pid, fifo_writer(&request));
                let bearing = Bearing::of(&request);
                lock(&mount.under_way).insert(unique, UnderWay { blocks, opening, caller, fifo_writer, bearing });
            }
        }
        if lock(&self.order).closed {
            if lock(&mount.under_way).remove(&unique).is_some() {
                mount.write(&proto::status(unique, libc::ENOTCONN));
            }
            return;
        }
        let marked = self.sets_lock_of_open_file(&request).then(|| peek::for_open_file(bytes)).flatten();
        if let (Some(Opcode::Setlk | Opcode::Setlkw), Ok(asked)) = (request.opcode, request.args().take::<LkIn>())
            && (marked.is_some() || asked.lk_flags & LK_FLOCK != 0)
        {
            self.uplink.locks(request.header.nodeid, asked.fh);
        }
        self.uplink.request(index, marked.as_deref().unwrap_or(bytes));
    }

    fn is_told_by(&self, request: &Request<'_>) -> bool {
        let InHeader { nodeid, pid, .. } = request.header;
        request.args().take::<FsyncIn>().is_ok_and(|asked| self.uplink.tells(pid, nodeid, asked.fh))
    }

    fn sets_lock_of_open_file(&self, request: &Request<'_>) -> bool {
        matches!(request.opcode, Some(Opcode::Setlk | Opcode::Setlkw))
            && self.uplink.current_call(request.header.pid).is_some_and(|line| peek::locks_for_open_file(&line))
    }

    fn is_kernel_asking(&self, tid: u32) -> bool {
        tid != 0 && self.uplink.current_call(tid).is_some_and(|line| peek::is_kernel_asking(&line))
    }

    /// Handles the closing of a file by the room. Returns true if the file stays open at home for a
    /// while.
    fn keeps_open(&self, index: u16, request: &Request<'_>) -> bool {
        let Ok(release) = request.args().take::<ReleaseIn>() else { return false };
        self.uplink.closed(request.header.nodeid, release.fh);
        lock(&self.behind).closed(index, release.fh);
        if release.release_flags & RELEASE_FLOCK_UNLOCK != 0 {
            lock(&self.files).hold(index, release.fh);
        }
        let now = Instant::now();
        let (closed, first) = {
            let mut files = lock(&self.files);
            let first = files.next_expiry().is_none();
            (files.closed(index, release.fh, now), first)
        };
        let Ok(surplus) = closed else { return false };
        self.release(surplus);
        if first {
            // The thread that closes expired files had nothing to wait for until now.
            drop(lock(&self.queue));
            self.queued.notify_one();
        }
        true
    }

    fn release(&self, files: impl IntoIterator<Item = Release>) {
        files.into_iter().for_each(|file| self.uplink.request(file.mount, &file.request()));
    }

    fn forgotten(&self, index: u16, request: &Request<'_>) {
        match request.opcode {
            Some(Opcode::Forget) => self.forget(index, request.header.nodeid),
            Some(Opcode::BatchForget) => {
                let mut args = request.args();
                let count = args.take::<BatchForgetIn>().map_or(0, |batch| batch.count);
                for node in (0..count).map_while(|_| args.take::<ForgetOne>().ok()).map(|one| one.nodeid) {
                    self.forget(index, node);
                }
            }
            _ => {}
        }
    }

    fn forget(&self, index: u16, node: u64) {
        lock(&self.dirs).forget(index, node);
        self.release(lock(&self.files).forget(index, node));
    }

    fn apply_invalidations(&self) {
        while let Some((seq, invalidation, last)) = self.next_invalidation() {
            if matches!(invalidation.what, What::Attr { .. } | What::Content { .. }) {
                self.release(lock(&self.files).forget(invalidation.mount, invalidation.node));
            }
            if let Some(mount) = self.mounts.get(usize::from(invalidation.mount)) {
                mount.apply(&invalidation, self.turn(seq));
            }
            let ready = {
                let mut order = lock(&self.order);
                let ready = order.advance(seq);
                self.applied.store(seq, Ordering::Release);
                self.applied_changed.notify_all();
                ready
            };
            for (mount, bytes) in ready {
                self.mounts[usize::from(mount)].write(&bytes);
            }
            // Home waits for the confirmation of content, because a lease may block a writer there.
            // Other invalidations may be confirmed together.
            if last || matches!(invalidation.what, What::Content { .. }) {
                self.uplink.applied(seq);
            }
        }
    }

    /// Tells whether to apply invalidation `seq`, once that is known.
    fn turn(&self, seq: u64) -> NameAction {
        let must_wait = |order: &mut ReplyOrder| !order.closed && order.turn(seq) == NameAction::Wait;
        let order = self.applied_changed.wait_while(lock(&self.order), must_wait);
        order.unwrap_or_else(PoisonError::into_inner).turn(seq)
    }

    fn next_invalidation(&self) -> Option<(u64, Invalidation, bool)> {
        let mut queue = lock(&self.queue);
        loop {
            if queue.closed {
                return None;
            }
            if let Some((seq, invalidation)) = queue.items.pop_front() {
                return Some((seq, invalidation, queue.items.is_empty()));
            }
            let (expired, next) = {
                let (mut files, now) = (lock(&self.files), Instant::now());
                (files.expired(now), files.next_expiry().map(|at| at.saturating_duration_since(now)))
            };
            if !expired.is_empty() {
                drop(queue);
                self.release(expired);
                queue = lock(&self.queue);
                continue;
            }
            let longest = next.unwrap_or(Duration::MAX);
            queue = match self.queued.wait_timeout(queue, longest) {
                Ok((queue, _)) => queue,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

/// Gives the handle of the file that this reply opens, if the room may cache its content.
fn cached_handle(reply: &[u8]) -> Option<u64> {
    let (open, _) = OpenOut::read_from_prefix(reply.get(OUT_HEADER_BYTES..)?).ok()?;
    (open.open_flags == fopen::KEEP_CACHE | fopen::NOFLUSH).then_some(open.fh)
}

/// Tells whether the request is about locks. A lock may have become free by a close that the kernel
/// reported earlier.
fn is_about_locks(request: &Request<'_>) -> bool {
    matches!(request.opcode, Some(Opcode::Getlk | Opcode::Setlk | Opcode::Setlkw))
}

/// Gives the thread of this request, if it writes to a FIFO; else 0.
fn fifo_writer(request: &Request<'_>) -> u32 {
    let writes = request.opcode == Some(Opcode::Write) && request.header.nodeid & proto::STANDIN_BIT != 0;
    if writes { request.header.pid } else { 0 }
}
