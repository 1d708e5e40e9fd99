//! From a request to its reply.

use super::nodes::Node;
use super::{Change, Export, Server, lock};
use crate::proto::{
    self, BatchForgetIn, ForgetIn, ForgetOne, InterruptIn, Malformed, Opcode, ROOT_ID, ReplyBuf, Request, STANDIN_BIT,
};
use rustix::io::{Errno, Result};
use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The time for which the room's kernel may use what it was told, seconds. It is told of changes.
pub(super) const VALID_S: u64 = 3600;

/// One request in the server.
pub(super) struct Call<'a> {
    pub(super) mount: u16,
    pub(super) request: Request<'a>,
    /// The node that the request names.
    pub(super) node: Arc<Node>,
    /// Whether the request names the node by its stand-in.
    pub(super) stands_in: bool,
    /// Number of the newest invalidation before the server looked at anything.
    pub(super) start: u64,
}

/// What the reply tells beside its bytes. It is compared with what has changed when the reply is
/// sent.
pub(super) enum Answer {
    /// The room's kernel keeps nothing of the reply, or ensures its validity itself.
    Plain,
    /// The reply begins with an `EntryOut`; without a node it is a cached "not found".
    Entry { dir: Arc<Node>, node: Option<Arc<Node>> },
    /// The reply begins with an `AttrOut`.
    Attr(Arc<Node>),
    /// The payload has `EntryOut`s at these offsets.
    Listing { dir: Arc<Node>, entries: Vec<(usize, Arc<Node>)> },
    /// The reply has content that must not stay in the room's cache.
    Uncached(Arc<Node>),
    /// Another thread sends the reply.
    Later,
}

impl From<Malformed> for Refused {
    fn from(malformed: Malformed) -> Refused {
        if matches!(malformed, Malformed::NameTooLong(_)) {
            return Refused(Errno::NAMETOOLONG);
        }
        tracing::warn!(%malformed, "a room sent a bad request");
        Refused(Errno::INVAL)
    }
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Refused {
        Refused(errno)
    }
}

/// The error number with which a request fails.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Errno);

pub(super) type Outcome = std::result::Result<Answer, Refused>;

thread_local! {
    static BUFFER: RefCell<ReplyBuf> = RefCell::default();
}

/// Tells whether this request reads a file's content.
pub fn reads(bytes: &[u8]) -> bool {
    Request::parse(bytes).is_ok_and(|request| request.opcode == Some(Opcode::Read))
}

impl Server {
    /// Answers a request that could not be served with EIO.
    pub fn fail(&self, mount: u16, bytes: &[u8]) {
        if let Ok(request) = Request::parse(bytes)
            && !request.opcode.is_some_and(Opcode::is_one_way)
        {
            self.refuse(mount, request.header.unique, Errno::IO);
        }
    }

    /// Runs one request of mount `mount` in this thread, and replies through the outlet. The thread
    /// takes on the identity of the caller for good, so it must not do anything else with files.
    /// Malformed bytes are answered with an error or ignored.
    pub fn request(self: &Arc<Self>, mount: u16, bytes: &[u8]) {
        let start = self.seq.load(Ordering::Acquire);
        let request = match Request::parse(bytes) {
            Ok(request) => request,
            Err(malformed) => {
                tracing::warn!(mount, %malformed, "a room sent bytes that are no request");
                return;
            }
        };
        let unique = request.header.unique;
        if self.one_way(mount, &request) {
            return;
        }
        let Some(node) = self.node(mount, request.header.nodeid) else {
            return self.refuse(mount, unique, Errno::STALE);
        };
        let stands_in = request.header.nodeid & STANDIN_BIT != 0;
        let call = Call { mount, request, node, stands_in, start };
        BUFFER.with_borrow_mut(|buf| {
            buf.clear();
            match self.run(&call, buf) {
                Ok(answer) => self.send(mount, unique, start, &answer, buf),
                Err(Refused(errno)) => self.refuse(mount, unique, errno),
            }
        });
    }

    /// Tells whether this request must be run before the next one is taken. The room's kernel
    /// reports closes in order but does not wait for a reply, and its next request may depend on
    /// the close, which frees locks.
    pub fn comes_first(&self, bytes: &[u8]) -> bool {
        release(bytes).is_some_and(|release| {
            release.release_flags & proto::RELEASE_FLOCK_UNLOCK != 0 || self.locks.is_locked_through(release.fh)
        })
    }

    /// Tells whether this request closes a stand-in (a FIFO may have lost its last reader). It must
    /// be run before the next one, too, but may have to wait for the lock of the pipe.
    pub fn closes_stream(&self, bytes: &[u8]) -> bool {
        release(bytes).is_some_and(|release| self.handles.is_stream(release.fh))
    }

    fn run(self: &Arc<Self>, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        use Opcode::*;
        let Some(opcode) = call.request.opcode else { return Err(Refused(Errno::NOSYS)) };
        match opcode {
            Lookup => self.lookup(call, buf),
            Getattr => self.getattr(call, buf),
            Setattr => self.setattr(call, buf),
            Readlink => self.readlink(call, buf),
            Symlink => self.symlink(call, buf),
            Mknod => self.mknod(call, buf),
            Mkdir => self.mkdir(call, buf),
            Unlink => self.unlink(call, false),
            Rmdir => self.unlink(call, true),
            Rename => self.rename(call, false),
            Rename2 => self.rename(call, true),
            Link => self.link(call, buf),
            Open => self.open(call, buf),
            Create => self.create(call, buf),
            Tmpfile => self.tmpfile(call, buf),
            Read => self.read(call, buf),
            Write => self.write(call, buf),
            Release => self.release(call),
            Flush => self.flush(call),
            Fsync | Fsyncdir => self.fsync(call),
            Statfs => self.statfs(call, buf),
            Opendir => self.opendir(call, buf),
            Readdir => self.readdir(call, buf),
            Readdirplus => self.readdirplus(call, buf),
            Releasedir => self.release(call),
            Setxattr => self.setxattr(call),
            Getxattr => self.getxattr(call, buf),
            Listxattr => self.listxattr(call, buf),
            Removexattr => self.removexattr(call),
            Getlk => self.getlk(call, buf),
            Setlk => self.setlk(call, false),
            Setlkw => self.setlk(call, true),
            Fallocate => self.fallocate(call),
            Lseek => self.lseek(call, buf),
            CopyFileRange => self.copy_file_range(call, buf),
            Syncfs => self.syncfs(call),
            // Birth times are not supported: the room's kernel would ask for them at every stat,
            // because it caches all attributes but that one.
            Statx => Err(Refused(Errno::NOSYS)),
            // The room's kernel alone answers these (default_permissions), or nobody does.
            Access | Bmap | Ioctl | Poll | Setupmapping | Removemapping => Err(Refused(Errno::NOSYS)),
            Init | Destroy | Forget | BatchForget | Interrupt | NotifyReply => Err(Refused(Errno::INVAL)),
        }
    }

    /// Runs a request that gets no reply, or concerns no node. Returns whether it was one.
    fn one_way(&self, mount: u16, request: &Request<'_>) -> bool {
        let mut args = request.args();
        match request.opcode {
            Some(Opcode::Forget) => {
                if let Ok(forget) = args.take::<ForgetIn>() {
                    self.forget(mount, request.header.nodeid, forget.nlookup);
                }
            }
            Some(Opcode::BatchForget) => {
                let count = args.take::<BatchForgetIn>().map_or(0, |batch| batch.count);
                for _ in 0..count {
                    let Ok(one) = args.take::<ForgetOne>() else { break };
                    self.forget(mount, one.nodeid, one.nlookup);
                }
            }
            Some(Opcode::Interrupt) => {
                if let Ok(interrupt) = args.take::<InterruptIn>() {
                    self.waiting.interrupt(mount, interrupt.unique);
                }
            }
            Some(Opcode::Destroy) => {
                self.unmounted(mount);
                self.answer(mount, request.header.unique, 0);
            }
            _ => return false,
        }
        true
    }

    pub(super) fn export(&self, node: &Node) -> &Export {
        &self.exports[usize::from(node.export)]
    }

    /// Finds the node with this id in this mount.
    pub(super) fn node(&self, mount: u16, id: u64) -> Option<Arc<Node>> {
        let root = &self.exports.get(usize::from(mount))?.root;
        if id == ROOT_ID {
            return Some(root.clone());
        }
        self.nodes.by_id(id & !STANDIN_BIT).filter(|node| node.export == mount && !Arc::ptr_eq(node, root))
    }

    /// Gives an O_PATH descriptor of a node. Call it before [`Server::assume`]: it may need the
    /// steward's own rights.
    pub(super) fn path(&self, node: &Arc<Node>) -> Result<Arc<OwnedFd>> {
        self.nodes.path_fd(node, &self.export(node).any)
    }

    /// Makes this thread act as the caller, if the room hosts such a process.
    pub(super) fn assume(&self, call: &Call<'_>) -> Result<super::Credentials> {
        let header = &call.request.header;
        let who = self.callers.credentials(header.pid, header.uid, header.gid).ok_or_else(|| {
            tracing::warn!(
                header.pid,
                header.uid,
                header.gid,
                "refused a request: the room hosts no process with these ids"
            );
            Errno::ACCESS
        })?;
        self.authority.assume(&who)?;
        Ok(who)
    }

    /// Makes the calling thread, which nothing else uses, act with these rights.
    pub fn act_as(&self, who: &super::Credentials) -> std::io::Result<()> {
        Ok(self.authority.assume(who)?)
    }

    fn forget(&self, mount: u16, id: u64, count: u64) {
        if id == ROOT_ID {
            return;
        }
        let Some(node) = self.node(mount, id) else { return };
        self.nodes.forget(&node, count);
        self.unwatch_if_unknown(&node);
    }

    fn unwatch_if_unknown(&self, node: &Arc<Node>) {
        if self.nodes.by_id(node.id).is_some() || !node.is_watched() {
            return;
        }
        // This fails if the file is gone from home; then its mark is gone, too.
        if let Ok(path) = self.path(node)
            && self.authority.resume().is_ok()
        {
            self.watch.end(node, || self.nodes.is_known_again(node), &path);
        }
    }

    /// Forgets a mount that is gone, with all that it had open.
    fn unmounted(&self, mount: u16) {
        for (fh, open) in self.handles.remove_export(mount) {
            self.closed(fh, open);
        }
        for node in self.nodes.of_export(mount) {
            if !Arc::ptr_eq(&node, &self.export(&node).root) {
                self.nodes.forget(&node, u64::MAX);
                self.unwatch_if_unknown(&node);
            }
        }
    }

    pub(super) fn refuse(&self, mount: u16, unique: u64, errno: Errno) {
        self.answer(mount, unique, errno.raw_os_error());
    }

    /// Replies with this error number alone; 0 means success.
    fn answer(&self, mount: u16, unique: u64, errno: i32) {
        let seq = self.flush_events();
        self.outlet.reply(mount, &proto::status(unique, errno), seq);
    }

    /// Sends a reply. It keeps its place among the invalidations, and is marked as not to be cached
    /// if its subject has changed since the server looked at it.
    pub(super) fn send(&self, mount: u16, unique: u64, start: u64, answer: &Answer, buf: &mut ReplyBuf) {
        match answer {
            Answer::Later => {}
            Answer::Plain => {
                let seq = self.flush_events();
                self.outlet.reply(mount, buf.finish(unique), seq);
            }
            Answer::Uncached(node) => {
                // Both under one lock: a message to the room in between would have a number that
                // does not cover the invalidation.
                let mut order = lock(&self.order);
                let seq = self.drain(&mut order);
                self.outlet.reply(mount, buf.finish(unique), seq);
                self.emit_in_order(node, Change::Content);
            }
            Answer::Entry { .. } | Answer::Attr(_) | Answer::Listing { .. } => {
                let mut order = lock(&self.order);
                let seq = self.drain(&mut order);
                if seq > start {
                    answer.expire_what_changed(start, buf.payload_mut());
                }
                match answer {
                    Answer::Entry { dir, node: Some(node) } => self.note_naming(dir, node),
                    Answer::Listing { dir, entries } => {
                        entries.iter().for_each(|(_, node)| self.note_naming(dir, node))
                    }
                    _ => {}
                }
                self.outlet.reply(mount, buf.finish(unique), seq);
            }
        }
    }
}

/// Gives the arguments of a request to close a file, if it is one.
fn release(bytes: &[u8]) -> Option<proto::ReleaseIn> {
    let request = Request::parse(bytes).ok().filter(|request| request.opcode == Some(Opcode::Release))?;
    request.args().take().ok()
}

impl Answer {
    fn expire_what_changed(&self, start: u64, payload: &mut [u8]) {
        // These are offsets in `EntryOut`. In `AttrOut` the validity is the first word.
        const ENTRY_VALID: usize = std::mem::offset_of!(proto::EntryOut, entry_valid);
        const ATTR_VALID: usize = std::mem::offset_of!(proto::EntryOut, attr_valid);
        let mut zero = |at: usize| {
            if let Some(word) = payload.get_mut(at..at + 8) {
                word.fill(0);
            }
        };
        let names = |dir: &Node| dir.names_changed.load(Ordering::Relaxed) > start;
        let attr = |node: &Node| node.changed.load(Ordering::Relaxed) > start;
        let mut entry = |at: usize, dir: &Node, node: Option<&Node>| {
            if names(dir) {
                zero(at + ENTRY_VALID);
            }
            if node.is_some_and(attr) {
                zero(at + ATTR_VALID);
            }
        };
        match self {
            Answer::Entry { dir, node } => entry(0, dir, node.as_deref()),
            Answer::Listing { dir, entries } => entries.iter().for_each(|(at, node)| entry(*at, dir, Some(node))),
            Answer::Attr(node) if attr(node) => zero(0),
            _ => {}
        }
    }
}
