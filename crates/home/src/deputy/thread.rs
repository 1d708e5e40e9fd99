//! One thread of a deputy: its channel, the job under way, and those that wait.

use crate::deputy::job::{Job, Purpose};
use os::socket;
use room_protocol::message::{CallId, Credentials};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};

pub(super) const EINTR: i64 = -4;

/// One thread of a deputy.
#[derive(Debug)]
pub struct Thread {
    channel: OwnedFd,
    /// The number that its end has in the deputy, once that has said so.
    pub number: Option<i32>,
    pub(super) current: Option<Job>,
    pub(super) queue: VecDeque<Job>,
    /// A call that a stop of job control interrupted: made again when the process is continued,
    /// unless the body is interrupted too.
    parked: Option<Job>,
    /// A stop of job control was told since the last reply.
    stop_told: bool,
    /// The thread was told to end: it gets no more jobs.
    pub(super) leaving: bool,
    /// It could not go where the next call is to be made: what it tried is made instead, and fails
    /// as it did.
    astray: Option<Vec<u8>>,
    /// Its rights, if they are others than its process'.
    pub(super) rights: Option<Credentials>,
    /// The blob runs in it: until then what it is to do waits, and nobody may interrupt it.
    ready: bool,
}

impl Thread {
    pub(super) fn new(channel: OwnedFd) -> Thread {
        Thread {
            channel,
            number: None,
            current: None,
            queue: VecDeque::new(),
            parked: None,
            stop_told: false,
            leaving: false,
            astray: None,
            rights: None,
            ready: true,
        }
    }

    /// Counts the jobs that the thread has or that wait for it.
    pub fn jobs(&self) -> usize {
        self.queue.len() + usize::from(self.current.is_some())
    }

    /// As [`Thread::new`], with the number that the other end of the channel has in the deputy.
    pub(super) fn numbered(channel: OwnedFd, number: Option<i32>) -> Thread {
        Thread { number, ..Thread::new(channel) }
    }

    /// As [`Thread::new`], of a process that is still to become a deputy.
    pub(super) fn arriving(channel: OwnedFd) -> Thread {
        Thread { ready: false, ..Thread::new(channel) }
    }

    /// Notes that the blob runs in the thread.
    pub fn ready(&mut self) {
        self.ready = true;
        self.next();
    }

    /// The steward's end of its channel.
    pub fn channel(&self) -> &OwnedFd {
        &self.channel
    }

    /// Tells whether the thread has nothing to do.
    pub fn rests(&self) -> bool {
        self.is_idle() && self.queue.is_empty() && self.parked.is_none()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none()
    }

    pub(super) fn business(&self) -> Option<String> {
        let job = self.current.as_ref().or(self.queue.front());
        let what = match job.map(|job| &job.purpose) {
            _ if self.leaving => "is to end".into(),
            Some(_) if !self.ready => "is not there yet".into(),
            Some(Purpose::Call { nr, .. }) => format!("makes {}", systable::name(*nr).unwrap_or("an unknown call")),
            Some(Purpose::Take { .. }) => "takes a descriptor".into(),
            Some(Purpose::Thread { .. }) => "makes a thread".into(),
            Some(Purpose::Fork { .. }) => "makes a process".into(),
            Some(Purpose::Stop) => "is stopped".into(),
            Some(Purpose::Enter | Purpose::Close(_) | Purpose::Nothing) => "does what it was told".into(),
            None => return None,
        };
        Some(what)
    }

    /// Has it do this, at once or when it has done what came before.
    pub fn give(&mut self, job: Job) {
        self.queue.push_back(job);
        self.next();
    }

    /// It has told of a signal. One that stops a job was sent by a terminal that the call may not
    /// use now: made again at once, the call would have it sent again, and again.
    pub fn told(&mut self, signal: i32) {
        self.stop_told |= is_job_stop(signal);
    }

    /// Makes a call again that a stop interrupted.
    pub fn unpark(&mut self) {
        if let Some(job) = self.parked.take() {
            self.queue.push_front(job);
            self.next();
        }
    }

    fn next(&mut self) {
        if self.ready
            && self.current.is_none()
            && let Some(mut job) = self.queue.pop_front()
        {
            if matches!(job.purpose, Purpose::Call { .. })
                && let Some(packet) = self.astray.take()
            {
                job.packet = packet;
            }
            self.send(&job);
            self.current = Some(job);
        }
    }

    fn send(&self, job: &Job) {
        let fds: Vec<_> = job.fd.iter().map(AsFd::as_fd).collect();
        // A deputy that is gone is noticed by its pidfd.
        if let Err(e) = socket::send(self.channel.as_fd(), &[IoSlice::new(&job.packet)], &fds, libc::MSG_DONTWAIT) {
            tracing::debug!("deputy: {e}");
        }
    }

    /// Takes a reply. Gives the job that is done; `None` if the job goes on: a call that a signal
    /// interrupted is made again, unless the body was interrupted too.
    pub fn replied(&mut self, result: i64) -> Option<(Job, i64)> {
        let job = self.current.take()?;
        let interrupted = result == EINTR || result == abi::NOT_EXECUTED;
        let stop_told = std::mem::take(&mut self.stop_told);
        if interrupted && !job.cancelled && stop_told {
            self.parked = Some(job);
            self.next();
            return None;
        }
        if interrupted && !job.cancelled && self.is_urgent() {
            let at = self.queue.iter().take_while(|j| j.urgent).count();
            self.queue.insert(at, job);
            self.next();
            return None;
        }
        if interrupted && !job.cancelled {
            self.send(&job);
            self.current = Some(job);
            return None;
        }
        if matches!(job.purpose, Purpose::Enter) {
            self.astray = (result < 0).then(|| job.packet.clone());
        }
        self.next();
        Some((job, if interrupted { EINTR } else { result }))
    }

    /// The body does not wait for this call any more: `Some` if it had not begun, and is out of the
    /// queue now; else its thread must be interrupted.
    pub fn cancel(&mut self, id: CallId) -> Option<Job> {
        if let Some(parked) = self.parked.take_if(|j| j.is_call(id)) {
            return Some(parked);
        }
        if let Some(at) = self.queue.iter().position(|j| j.is_call(id)) {
            self.astray = None;
            return self.queue.remove(at);
        }
        if let Some(job) = self.current.as_mut().filter(|j| j.is_call(id)) {
            job.cancelled = true;
        }
        None
    }

    /// Whether it is in a call that is to end, or to make room.
    pub fn is_to_be_interrupted(&self) -> bool {
        self.current.as_ref().is_some_and(|j| j.cancelled || (j.made_again && self.is_urgent()))
    }

    fn is_urgent(&self) -> bool {
        self.queue.front().is_some_and(|j| j.urgent)
    }

    /// Has it do this before all else.
    pub(super) fn give_urgent(&mut self, job: Job) {
        self.queue.push_front(Job { urgent: true, ..job });
        self.next();
    }

    /// This comes next, and what is under way is to end.
    pub(super) fn preempt(&mut self, job: Job) {
        if let Some(current) = self.current.as_mut() {
            current.cancelled = true;
        }
        self.queue.clear();
        self.queue.push_back(job);
        self.next();
    }
}

/// SIGTSTP, SIGTTIN or SIGTTOU.
pub fn is_job_stop(signal: i32) -> bool {
    matches!(signal, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}
