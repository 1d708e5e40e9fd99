//! From a request to its reply.

use crate::proto::{
    self, BatchForgetIn, ForgetIn, ForgetOne, InterruptIn, Opcode, ROOT_ID, ReplyBuf, Request, STANDIN_BIT,
};
use crate::server::Server;
use crate::server::base::answer::{Answer, Call, Outcome, Refused};
use crate::server::state::nodes::Node;
use rustix::io::Errno;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

    /// Runs a request that the room has answered itself. Call it before the next message of the
    /// room is looked at.
    pub fn behind(self: &Arc<Self>, mount: u16, bytes: &[u8]) {
        self.run_request(mount, bytes, true);
    }

    /// Runs one request of mount `mount` in this thread, and replies through the outlet. The thread
    /// takes on the identity of the caller for good, so it must not do anything else with files.
    /// Malformed bytes are answered with an error or ignored.
    pub fn request(self: &Arc<Self>, mount: u16, bytes: &[u8]) {
        self.run_request(mount, bytes, false);
    }

    fn run_request(self: &Arc<Self>, mount: u16, bytes: &[u8], is_behind: bool) {
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
        let call = Call { mount, request, node, stands_in, is_behind, start };
        BUFFER.with_borrow_mut(|buf| {
            buf.clear();
            match self.run(&call, buf) {
                Ok(Answer::Plain) if is_behind => self.report(mount, unique, Ok(buf)),
                Err(refused) if is_behind => self.report(mount, unique, Err(refused)),
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
        self.open_late(call)?;
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
}

/// Gives the arguments of a request to close a file, if it is one.
fn release(bytes: &[u8]) -> Option<proto::ReleaseIn> {
    let request = Request::parse(bytes).ok().filter(|request| request.opcode == Some(Opcode::Release))?;
    request.args().take().ok()
}
