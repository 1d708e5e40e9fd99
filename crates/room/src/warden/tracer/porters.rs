//! Commands to the porter: one at a time, each with what follows from its answer. The tracer never
//! waits for the porter, which it traces.

use super::Tracer;
use crate::porter::{Answer, Channels, Command, Notice, tell};
use os::contain::on_account_of;
use os::ptrace::{HostTid, Stopped};
use room_protocol::ToHome;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The porter, and what it was asked.
pub struct Porter {
    pub host: HostTid,
    channels: Channels,
    queue: VecDeque<(Command, Option<OwnedFd>, Then)>,
    under_way: Option<Then>,
}

/// What follows from the porter's answer.
#[derive(Debug)]
pub enum Then {
    /// The body was started, or not.
    Placed { pid: i32 },
    /// The next number is set: this thread may make its thread.
    Clone(Stopped),
}

impl Porter {
    pub fn new(host: HostTid, channels: Channels) -> Porter {
        Porter { host, channels, queue: VecDeque::new(), under_way: None }
    }

    pub fn commands(&self) -> BorrowedFd<'_> {
        self.channels.commands.as_fd()
    }

    pub fn notices(&self) -> BorrowedFd<'_> {
        self.channels.notices.as_fd()
    }

    pub fn ask(&mut self, command: Command, fd: Option<OwnedFd>, then: Then) {
        self.queue.push_back((command, fd, then));
        self.go_on();
    }

    /// Asks what waits, if nothing is under way.
    pub fn go_on(&mut self) {
        if self.under_way.is_some() {
            return;
        }
        if let Some((command, fd, then)) = self.queue.pop_front() {
            let fds: Vec<BorrowedFd<'_>> = fd.iter().map(|f| f.as_fd()).collect();
            if let Err(e) = tell(self.channels.commands.as_fd(), &command, &fds) {
                tracing::error!("porter: {e}");
            }
            self.under_way = Some(then);
        }
    }
}

impl Tracer {
    pub fn porter_answered(&mut self, answer: Answer) {
        let then = self.porter.under_way.take();
        let account = match &then {
            Some(Then::Placed { pid }) => Some(*pid),
            Some(Then::Clone(stopped)) => self.room.process(stopped.tid()),
            None => None,
        };
        account.into_iter().for_each(on_account_of);
        match (then, answer) {
            (Some(Then::Placed { pid }), Answer::Failed { errno, what }) => {
                self.not_placed(pid, errno, what);
                // No process was made.
                self.bodies.forget(pid);
            }
            (Some(Then::Clone(stopped)), Answer::Failed { what, .. }) => {
                tracing::error!("porter: {what}");
                self.birth_failed(stopped, libc::EAGAIN);
            }
            (Some(Then::Clone(stopped)), _) => self.give_birth(stopped),
            (Some(Then::Placed { .. }) | None, _) => {}
        }
    }

    pub fn porter_noticed(&mut self, notice: Notice) {
        let (Notice::Reaped { pid, .. } | Notice::BodyFailed { pid, .. }) = &notice;
        on_account_of(*pid);
        match notice {
            Notice::Reaped { pid, usage } => self.reaped(pid, usage),
            Notice::BodyFailed { pid, errno, what } => self.not_placed(pid, errno, what),
        }
    }

    fn not_placed(&mut self, pid: i32, errno: i32, what: String) {
        if self.bodies.fail(pid) {
            self.room.guests().remove(pid);
            self.signals.forget(pid);
            self.room.tell(&ToHome::Placed { pid, result: Err((errno, what)) });
        }
    }
}
