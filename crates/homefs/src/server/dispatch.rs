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

/// How long the room's kernel may believe what it was told, seconds. It is told when that changes.
pub(super) const VALID_S: u64 = 3600;

/// One request on its way through the server.
pub(super) struct Call<'a> {
    pub(super) mount: u16,
    pub(super) request: Request<'a>,
    /// The node that it names.
    pub(super) node: Arc<Node>,
    /// It is named by its stand-in.
    pub(super) stands_in: bool,
    /// Number of the newest invalidation before anything was looked at.
    pub(super) start: u64,
}

/// What the reply says beside its bytes; it is checked against what has changed when the reply is sent.
pub(super) enum Answer {
    /// Nothing in it is kept by the room's kernel, or the kernel itself sees to it.
    Plain,
    /// Begins with an `EntryOut`; no node is a cached "not found".
    Entry { dir: Arc<Node>, node: Option<Arc<Node>> },
    /// Begins with an `AttrOut`.
    Attr(Arc<Node>),
    /// `EntryOut`s at these offsets of the payload.
    Listing { dir: Arc<Node>, entries: Vec<(usize, Arc<Node>)> },
    /// Content that must not stay in the room's cache.
    Uncached(Arc<Node>),
    /// Another thread replies.
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

/// A request that ends with an error number.
#[derive(Debug)]
pub(super) struct Refused(pub(super) Errno);

pub(super) type Outcome = std::result::Result<Answer, Refused>;

thread_local! {
    static BUFFER: RefCell<ReplyBuf> = RefCell::default();
}

/// Whether this request is for a file's content.
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

    /// Runs one request of mount `mount` in this thread and replies through the outlet. The thread takes on the identity of whoever
    /// asks, for good: use threads that do nothing else with files. Malformed bytes are answered with an error or ignored.
    pub fn request(self: &Arc<Self>, mount: u16, bytes: &[u8]) {
        let start = self.seq.load(Ordering::Acquire);
        let request = match Request::parse(bytes) {
            Ok(request) => request,
            Err(malformed) => {
                tracing::warn!(mount, %malformed, "a room sent what is no request");
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

    /// This request is to be run before the next one is taken. The room's kernel tells in order what was closed, but waits for no answer, and what it sends
    /// next may depend on it: a lock that is free.
    pub fn comes_first(&self, bytes: &[u8]) -> bool {
        release(bytes).is_some_and(|release| {
            release.release_flags & proto::RELEASE_FLOCK_UNLOCK != 0 || self.locks.is_locked_through(release.fh)
        })
    }

    /// So is this (a FIFO that nobody reads any more), and it may have to wait for whoever has the pipe locked.
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
            // With birth times the room's kernel would ask at every stat: it caches all attributes but that one.
            Statx => Err(Refused(Errno::NOSYS)),
            // Answered by the room's kernel alone (default_permissions), or by nobody.
            Access | Bmap | Ioctl | Poll | Setupmapping | Removemapping => Err(Refused(Errno::NOSYS)),
            Init | Destroy | Forget | BatchForget | Interrupt | NotifyReply => Err(Refused(Errno::INVAL)),
        }
    }

    /// Requests that get no reply, or concern no node; true if this was one.
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

    /// The node with this id in this mount.
    pub(super) fn node(&self, mount: u16, id: u64) -> Option<Arc<Node>> {
        let root = &self.exports.get(usize::from(mount))?.root;
        if id == ROOT_ID {
            return Some(root.clone());
        }
        self.nodes.by_id(id & !STANDIN_BIT).filter(|node| node.export == mount && !Arc::ptr_eq(node, root))
    }

    /// An O_PATH descriptor of a node. Get it before [`Server::assume`]: it may take the steward's own rights.
    pub(super) fn path(&self, node: &Arc<Node>) -> Result<Arc<OwnedFd>> {
        self.nodes.path_fd(node, &self.export(node).any)
    }

    /// This thread acts as the caller from here on, if the room hosts such a one.
    pub(super) fn assume(&self, call: &Call<'_>) -> Result<super::Credentials> {
        let header = &call.request.header;
        let who = self.callers.credentials(header.pid, header.uid, header.gid).ok_or_else(|| {
            tracing::warn!(header.pid, header.uid, header.gid, "refused: the room hosts no such process");
            Errno::ACCESS
        })?;
        self.authority.assume(&who)?;
        Ok(who)
    }

    /// The calling thread, which nothing else uses, acts with these rights from here on.
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
        // Fails where the file is gone from home; then its mark is gone too.
        if let Ok(path) = self.path(node)
            && self.authority.resume().is_ok()
        {
            self.watch.end(node, || self.nodes.is_known_again(node), &path);
        }
    }

    /// A mount is gone: so is all that it had open.
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

    /// Replies with this error number alone; 0: all went well.
    fn answer(&self, mount: u16, unique: u64, errno: i32) {
        let seq = self.flush_events();
        self.outlet.reply(mount, &proto::status(unique, errno), seq);
    }

    /// Sends a reply. What the room's kernel may keep of it keeps its place among the invalidations, and is marked as not to be kept
    /// if it has changed since it was looked at.
    pub(super) fn send(&self, mount: u16, unique: u64, start: u64, answer: &Answer, buf: &mut ReplyBuf) {
        match answer {
            Answer::Later => {}
            Answer::Plain => {
                let seq = self.flush_events();
                self.outlet.reply(mount, buf.finish(unique), seq);
            }
            Answer::Uncached(node) => {
                // Together: no message to the room may come between, or its number would not cover the forgetting.
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

/// What a request to close a file says, if it is one.
fn release(bytes: &[u8]) -> Option<proto::ReleaseIn> {
    let request = Request::parse(bytes).ok().filter(|request| request.opcode == Some(Opcode::Release))?;
    request.args().take().ok()
}

impl Answer {
    fn expire_what_changed(&self, start: u64, payload: &mut [u8]) {
        // Offsets in `EntryOut`; in `AttrOut` the validity is the first word.
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
