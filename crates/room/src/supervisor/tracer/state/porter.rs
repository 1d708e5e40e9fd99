//! The porter as the tracer sees it: one command at a time.

use crate::sandbox::porter::{Channels, Command, tell};
use os::ptrace::{HostTid, Stopped};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The porter, and what it was asked.
pub struct Porter {
    pub host: HostTid,
    pub channels: Channels,
    pub queue: VecDeque<(Command, Option<OwnedFd>, Then)>,
    pub under_way: Option<Then>,
}

/// The step that follows from the porter's answer.
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
