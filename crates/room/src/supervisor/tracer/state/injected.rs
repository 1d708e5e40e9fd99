//! Work that threads are to do themselves when they stop next.

use crate::state::orders::Which;
use os::ptrace::HostTid;
use os::signals;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Work for a thread.
#[derive(Clone, Debug)]
pub enum Task {
    /// Send a signal: to which thread (by its number in the room), if it is for one, and what it
    /// carries.
    Signal(Option<i32>, [u8; 128]),
    /// Have descriptors look as at home.
    Show(Which),
    /// Make a userfaultfd, which goes there.
    Track(Sender<Result<OwnedFd, String>>),
}

/// Work that threads are to do, and how long they had slept when it came.
#[derive(Debug, Default)]
pub struct Injected {
    pub waiting: HashMap<HostTid, (Duration, Vec<Task>)>,
}

impl Injected {
    /// For how long a thread that is to do something had slept when that came.
    pub fn slept(&self, host: HostTid) -> Option<Duration> {
        self.waiting.get(&host).map(|(slept, _)| *slept)
    }

    /// A thread ended.
    pub fn forget_thread(&mut self, host: HostTid) {
        self.waiting.remove(&host);
    }

    /// Signals that this thread is to send and has not yet: for which thread, if for one, and what
    /// they carry.
    pub fn signals(&self, host: HostTid) -> impl Iterator<Item = (Option<i32>, &[u8; 128])> {
        let tasks = self.waiting.get(&host).map_or(&[][..], |(_, tasks)| tasks);
        tasks.iter().filter_map(|task| match task {
            Task::Signal(tid, info) => Some((*tid, info)),
            Task::Show(_) | Task::Track(_) => None,
        })
    }
}

/// Adds a signal, if it does not wait already and is not one too many.
pub fn add_signal(tasks: &mut Vec<Task>, waiting: signals::Signal) {
    let (tid, info) = waiting;
    let signal = signals::number(&info);
    let same = |task: &&Task| match task {
        Task::Signal(to, of) => *to == tid && signals::number(of) == signal,
        Task::Show(_) | Task::Track(_) => false,
    };
    let is_one_too_many = match signals::is_queued(signal) {
        true => tasks.len() >= signals::REAL_TIME_MAX,
        false => tasks.iter().any(|task| same(&task)),
    };
    if !is_one_too_many {
        tasks.push(Task::Signal(tid, info));
    }
}
