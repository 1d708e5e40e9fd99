//! Replies to the room.

use super::answer::{Answer, Call, Outcome, Refused};
use super::server::Server;
use crate::proto::{self, ReplyBuf};
use crate::server::state::events::Change;
use crate::server::state::mutex::lock;
use crate::server::state::nodes::Node;
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

impl Server {
    pub(crate) fn refuse(&self, mount: u16, unique: u64, errno: Errno) {
        self.answer(mount, unique, errno.raw_os_error());
    }

    /// Replies with this error number alone; 0 means success.
    pub(crate) fn answer(&self, mount: u16, unique: u64, errno: i32) {
        let seq = self.flush_events();
        self.outlet.reply(mount, &proto::status(unique, errno), seq);
    }

    /// Tells how a request was served that the room has answered itself.
    pub(crate) fn report(&self, mount: u16, unique: u64, done: Result<&mut ReplyBuf, Refused>) {
        let seq = self.flush_events();
        match done {
            Ok(buf) => self.outlet.report(mount, buf.finish(unique), seq),
            Err(Refused(errno)) => {
                self.outlet.report(mount, &proto::status(unique, errno.raw_os_error()), seq);
            }
        }
    }

    /// Sends a reply. It keeps its place among the invalidations, and is marked as not to be cached
    /// if its subject has changed since the server looked at it.
    pub(crate) fn send(&self, mount: u16, unique: u64, start: u64, answer: &Answer, buf: &mut ReplyBuf) {
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

    /// Continues with a request on a thread of its own, because it may wait for others. The room
    /// can interrupt it.
    pub(crate) fn later(
        self: &Arc<Self>,
        call: &Call<'_>,
        job: impl FnOnce(&Arc<Server>, &Arc<Node>, &mut ReplyBuf) -> Outcome + Send + 'static,
    ) {
        let (server, node, mount) = (self.clone(), call.node.clone(), call.mount);
        let (unique, start) = (call.request.header.unique, call.start);
        let wait = self.waiting.begin(mount, unique);
        let run = move || {
            wait.enter();
            let mut buf = ReplyBuf::default();
            buf.clear();
            // The requester waits for an answer, so a panic must give one. The job's own data is
            // lost.
            let done = catch_unwind(AssertUnwindSafe(|| job(&server, &node, &mut buf)));
            let outcome = done.unwrap_or(Err(Refused(Errno::IO)));
            server.waiting.end(mount, unique);
            match outcome {
                Ok(answer) => server.send(mount, unique, start, &answer, &mut buf),
                Err(Refused(errno)) => server.refuse(mount, unique, errno),
            }
        };
        if let Err(error) = std::thread::Builder::new().name("waits".into()).spawn(run) {
            tracing::error!(%error, "cannot start a thread for a request that may wait");
            self.waiting.end(mount, unique);
            self.refuse(mount, unique, Errno::NOMEM);
        }
    }
}
