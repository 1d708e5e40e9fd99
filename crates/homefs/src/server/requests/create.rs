//! Creating files and opening them in one request.

use super::open_mode::OpenMode;
use crate::proto::{CreateIn, ReplyBuf};
use crate::server::Server;
use crate::server::base::answer::{Answer, Call, Outcome, Refused};
use crate::server::state::creds::Credentials;
use crate::server::state::nodes::reopen;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How often a name is tried that others create and remove meanwhile.
const CREATE_TRIES: usize = 8;

/// A file to create.
struct Creation<'a> {
    name: &'a CStr,
    create: &'a CreateIn,
    who: &'a Credentials,
}

impl Server {
    pub(crate) fn create(self: &Arc<Self>, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let mut args = call.request.args();
        let (create, name) = (args.take::<CreateIn>()?, args.name()?);
        let exclusive = OFlags::from_bits_retain(create.flags).contains(OFlags::EXCL);
        let dir_fd = self.watched_path(&call.node)?;
        let who = self.assume(call)?;
        let creation = Creation { name, create: &create, who: &who };
        for _ in 0..CREATE_TRIES {
            self.authority.assume(&who)?;
            self.authority.set_umask(create.umask)?;
            match self.create_new(call, &dir_fd, &creation, buf) {
                Err(Refused(Errno::EXIST)) if !exclusive => {}
                done => return done,
            }
            self.authority.assume(&who)?;
            match self.open_existing(call, &dir_fd, &creation, buf) {
                Err(Refused(Errno::NOENT)) => {}
                done => return done,
            }
        }
        Err(Refused(Errno::BUSY))
    }

    fn create_new(&self, call: &Call<'_>, dir_fd: &OwnedFd, creation: &Creation<'_>, buf: &mut ReplyBuf) -> Outcome {
        let Creation { name, create, who } = *creation;
        let wanted = OpenMode::of(create.flags);
        let flags =
            (wanted.flags - OFlags::APPEND) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(create.mode & 0o7777);
        let file = rustix::fs::openat(dir_fd, name, flags, mode)?;
        self.made_open(call, file, wanted, who, buf)
    }

    /// Replies with the entry and the handle of a file that was just made and is open.
    fn made_open(
        &self,
        call: &Call<'_>,
        file: OwnedFd,
        wanted: OpenMode,
        who: &Credentials,
        buf: &mut ReplyBuf,
    ) -> Outcome {
        self.authority.resume()?;
        let path = reopen(&file, OFlags::PATH)?;
        let (node, entry) = self.entry_of(&call.node, path)?;
        let file = Arc::new(file);
        let opened = if wanted.writes {
            let cached = self.writer_made_it(&node, &file);
            self.opened_writer(&node, file, wanted, cached, who)
        } else {
            self.opened_reader(&node, file, who)
        };
        buf.push(&entry);
        buf.push(&opened.inspect_err(|_| self.nodes.forget(&node, 1))?);
        Ok(Answer::Entry { dir: call.node.clone(), node: Some(node) })
    }

    /// Opens the file that already has the name.
    fn open_existing(
        self: &Arc<Self>,
        call: &Call<'_>,
        dir_fd: &OwnedFd,
        creation: &Creation<'_>,
        buf: &mut ReplyBuf,
    ) -> Outcome {
        let Creation { name, create, who } = *creation;
        let wanted = OpenMode::of(create.flags);
        let (node, entry) = self.child(&call.node, dir_fd, name)?;
        let path = self.path(&node)?;
        let dir = call.node.clone();
        match self.open_node(&node, &path, wanted, who, false) {
            Ok(open) => {
                buf.push(&entry);
                buf.push(&open);
                Ok(Answer::Entry { dir, node: Some(node) })
            }
            Err(Errno::AGAIN) => {
                let who = who.clone();
                self.later(call, move |server, _, buf| {
                    let open = server.open_node(&node, &path, wanted, &who, true);
                    buf.push(&entry);
                    buf.push(&open.inspect_err(|_| server.nodes.forget(&node, 1))?);
                    Ok(Answer::Entry { dir, node: Some(node) })
                });
                Ok(Answer::Later)
            }
            Err(errno) => {
                self.nodes.forget(&node, 1);
                Err(Refused(errno))
            }
        }
    }

    pub(crate) fn tmpfile(&self, call: &Call<'_>, buf: &mut ReplyBuf) -> Outcome {
        let create = call.request.args().take::<CreateIn>()?;
        let wanted = OpenMode::of(create.flags);
        let exclusive = OFlags::from_bits_retain(create.flags) & OFlags::EXCL;
        let dir_fd = self.path(&call.node)?;
        let who = self.assume(call)?;
        self.authority.set_umask(create.umask)?;
        let flags = (wanted.flags - OFlags::APPEND) | exclusive | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&*dir_fd, c".", flags, Mode::from_raw_mode(create.mode & 0o7777))?;
        self.made_open(call, file, wanted, &who, buf)
    }
}
