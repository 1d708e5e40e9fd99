//! The deputies of a room, and what each of their threads is doing. No I/O but packets on their
//! channels.

use crate::deputy::channel;
use crate::deputy::closes::Token;
use crate::deputy::homecoming::{Announcement, HomecomingPolicy};
use crate::deputy::job::{Job, Purpose};
use crate::deputy::proof::DeputyProof;
use crate::deputy::thread::Thread;
use os::pidfd::PidFd;
use os::stopped::State;
use room_protocol::message::{BodyUsage, Credentials, StandinId};
use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The most refusals that are remembered of one process.
const REFUSALS_MAX: usize = 32;

/// Where a deputy is in its life.
#[derive(Debug, PartialEq, Eq)]
pub enum Phase {
    /// The process has come, and is not described yet.
    Arriving,
    /// The room makes the body.
    Placing,
    /// Its body runs.
    Away,
    /// The deputy was told to end.
    Ending,
}

/// A process whose body is in the room.
#[derive(Debug)]
pub struct Deputy {
    /// Holds the process.
    pub pidfd: Arc<PidFd>,
    /// How far its life is.
    pub phase: Phase,
    /// Proves later that the process is still the same deputy.
    pub proof: DeputyProof,
    /// Who it is, as the kernel says: those of its first thread, and of all that have none of their
    /// own.
    pub credentials: Credentials,
    /// Its body has executed a program since it was made: then its parent may not choose its group
    /// any more (setpgid(2)).
    pub has_executed: bool,
    /// Its securebits (capabilities(7)), as it has set them while it was away.
    pub securebits: u32,
    /// Program and arguments.
    pub program: room_protocol::message::Program,
    /// Its threads by TID.
    pub threads: HashMap<i32, Thread>,
    /// Descriptors that stand-ins stand for.
    pub standins: HashMap<StandinId, Vec<i32>>,
    /// How many children it is about to make: each is a deputy of its own when that is zero again.
    pub forks: u32,
    /// Stand-ins to close then: the children have them, too.
    pub late_closes: Vec<(StandinId, Arc<Token>)>,
    /// Calls that the room refused to the body, for `tern why`.
    pub refusals: VecDeque<String>,
    /// Children that never came to be in the room: their ends are not told.
    pub unborn: Vec<i32>,
    /// Calls that were made for the body.
    pub calls: u64,
    /// The body's usage at the last report.
    pub usage: Option<BodyUsage>,
    /// Signals that its program starts with blocked.
    pub blocked: u64,
    /// Signals that came before the room knew of the process.
    pub early: crate::deputy::early_signals::EarlySignals,
    /// The room was told that it is stopped, and not that it was continued.
    pub stopped: bool,
    /// How many SIGCONTs it has told of.
    pub continued: u32,
    /// A stop of job control is under way: it may be stopped any moment.
    pub stopping: bool,
    /// The body's pages lie in this process' memory still: it must not end before they were sent,
    /// ...
    pub lends: bool,
    /// ... and if the body has ended, ends with this then.
    pub ends_with: Option<Vec<u8>>,
    /// Where its own core goes when it ends, so that nobody takes that for the program's. The
    /// directory goes with this record.
    pub core_dir: Option<tempfile::TempDir>,
    /// Its standard error, which nobody in the room has any more, and since when: perhaps the body
    /// has been killed, and there is something to say.
    pub stderr: Option<(std::time::Instant, OwnedFd)>,
    /// Its body misses pages that lie in this process' memory.
    pub misses: Option<i32>,
    /// Whether it is stopped, since that was looked at first.
    pub state: Option<State>,
    /// The request of `tern run`, kept in case the process has to go home.
    pub manner: HomecomingPolicy,
    /// The last answer of the room when it has come home.
    pub announcement: Option<Announcement>,
}

impl Deputy {
    /// A process that is about to become a deputy; its first thread's channel.
    pub fn new(pidfd: PidFd, proof: DeputyProof, program: room_protocol::message::Program, channel: OwnedFd) -> Deputy {
        let pid = proof.pid();
        Deputy {
            pidfd: Arc::new(pidfd),
            proof,
            phase: Phase::Arriving,
            credentials: Credentials { uid: [u32::MAX; 4], gid: [u32::MAX; 4], ..Credentials::default() },
            has_executed: false,
            securebits: 0,
            program,
            threads: HashMap::from([(pid, Thread::arriving(channel))]),
            standins: HashMap::new(),
            forks: 0,
            late_closes: Vec::new(),
            refusals: VecDeque::new(),
            unborn: Vec::new(),
            calls: 0,
            usage: None,
            blocked: 0,
            early: Default::default(),
            stopped: false,
            continued: 0,
            stopping: false,
            lends: false,
            ends_with: None,
            core_dir: None,
            stderr: None,
            misses: None,
            state: None,
            manner: HomecomingPolicy::default(),
            announcement: None,
        }
    }

    /// A child of this one, whose first thread has this channel: it is like its parent, as fork(2)
    /// wants.
    pub fn child(&self, pidfd: PidFd, proof: DeputyProof, channel: OwnedFd) -> Deputy {
        let child = Deputy::new(pidfd, proof, self.program.clone(), channel);
        Deputy {
            phase: Phase::Away,
            credentials: self.credentials.clone(),
            standins: self.standins.clone(),
            manner: self.manner.clone(),
            ..child
        }
    }

    /// The rights of a thread.
    pub fn rights(&self, tid: i32) -> &Credentials {
        self.threads.get(&tid).and_then(|thread| thread.rights.as_ref()).unwrap_or(&self.credentials)
    }

    /// A thread may do this from now on; whether it is something else than before. Others' rights
    /// stay theirs.
    pub fn set_rights(&mut self, tid: i32, rights: &Credentials) -> bool {
        if self.rights(tid) == rights {
            return false;
        }
        let is_first = self.proof.pid() == tid;
        for (other, thread) in &mut self.threads {
            if *other == tid {
                thread.rights = (!is_first).then(|| rights.clone());
            } else if is_first {
                thread.rights.get_or_insert_with(|| self.credentials.clone());
            }
        }
        if is_first {
            self.credentials = rights.clone();
        }
        true
    }

    /// A thread that another has made is like it.
    pub fn inherit_rights(&mut self, maker: i32, made: i32) {
        let rights = self.threads.get(&maker).and_then(|thread| thread.rights.clone());
        if let Some(thread) = self.threads.get_mut(&made) {
            thread.rights = rights;
        }
    }

    /// It was found to be stopped just now. (Not if the steward has no descriptor left to look by:
    /// it is looked at again.)
    pub fn stops(&mut self, pid: i32) -> bool {
        self.state = self.state.take().or_else(|| State::of(pid).ok());
        self.state.as_ref().is_some_and(State::is_stopped)
    }

    /// Nothing is under way in any of its threads, but being stopped.
    pub fn is_idle(&self) -> bool {
        let rests = |t: &Thread| {
            let stops = || self.stopped && t.current.as_ref().is_some_and(|job| matches!(job.purpose, Purpose::Stop));
            (t.is_idle() || stops()) && t.queue.is_empty()
        };
        self.threads.values().all(rests)
    }

    /// As [`Deputy::is_idle`], and no thread is about to end.
    pub fn is_settled(&self) -> bool {
        self.is_idle() && self.threads.values().all(|t| !t.leaving)
    }

    /// The reason why it is not idle or settled, in words.
    pub fn business(&self) -> String {
        let of = |(tid, thread): (&i32, &Thread)| thread.business().map(|what| format!("its thread {tid} {what}"));
        self.threads.iter().find_map(of).unwrap_or_else(|| "its threads are not those of its body".into())
    }

    /// The thread that stands for the body's thread `tid`.
    pub fn own_thread(&mut self, tid: i32) -> Option<&mut Thread> {
        self.threads.get_mut(&tid).filter(|thread| !thread.leaving)
    }

    /// Has thread `tid` make a thread or a child. Tells whether there is such a thread.
    pub fn make(&mut self, tid: i32, job: Job) -> bool {
        let is_fork = matches!(job.purpose, Purpose::Fork { .. });
        let Some(thread) = self.own_thread(tid) else { return false };
        thread.give(job);
        self.forks += u32::from(is_fork);
        true
    }

    /// A thread that runs this call for `tid`; any other if that is not known.
    pub fn thread(&mut self, tid: i32) -> Option<&mut Thread> {
        let stays = self.threads.get(&tid).is_some_and(|t| !t.leaving);
        let tid = if stays { tid } else { self.any()? };
        self.threads.get_mut(&tid)
    }

    fn any(&self) -> Option<i32> {
        let staying = || self.threads.iter().filter(|(_, t)| !t.leaving);
        let idle = staying().find(|(_, t)| t.is_idle());
        idle.or_else(|| staying().next()).map(|(tid, _)| *tid)
    }

    /// Has whichever thread is free do this.
    pub fn give_any(&mut self, job: Job) {
        if let Some(thread) = self.any().and_then(|tid| self.threads.get_mut(&tid)) {
            thread.give(job);
        }
    }

    /// Has a thread do this that is free or can be interrupted; if there is none, the next that is
    /// free.
    pub fn give_soon(&mut self, job: Job) {
        match self.waits().and_then(|tid| self.threads.get_mut(&tid)) {
            Some(thread) => thread.give_urgent(job),
            None => self.give_any(job),
        }
    }

    /// The thread that is to be interrupted for what is to be done soon, if none is free.
    fn waits(&self) -> Option<i32> {
        let staying = || self.threads.iter().filter(|(_, t)| !t.leaving);
        let idle = staying().any(|(_, t)| t.is_idle());
        let waits = |t: &Thread| t.current.as_ref().is_some_and(|j| j.made_again);
        staying().find(|(_, t)| !idle && waits(t)).map(|(tid, _)| *tid)
    }

    /// The thread that does at once what it is given by [`Deputy::give_soon`]; `None`: it is
    /// stopped, or makes a call that may take long.
    pub fn soonest(&self) -> Option<i32> {
        let free = || self.any().filter(|tid| self.threads.get(tid).is_some_and(Thread::is_idle));
        self.waits().or_else(free).filter(|_| !self.stopped && !self.stopping)
    }

    /// Notes that the process was continued: calls that a stop interrupted are made again.
    pub fn was_continued(&mut self) {
        self.continued = self.continued.wrapping_add(1);
        self.stopped = false;
        self.threads.values_mut().for_each(Thread::unpark);
    }

    /// A thread comes; its end of the channel has this number in the deputy, if that is known
    /// already.
    pub fn add_thread(&mut self, tid: i32, channel: OwnedFd, number: Option<i32>) {
        self.threads.insert(tid, Thread::numbered(channel, number));
    }

    /// The numbers in the deputy of all threads' channels but that of thread `tid`.
    pub fn other_channels(&self, tid: i32) -> Vec<i32> {
        self.threads.iter().filter(|(t, _)| **t != tid).filter_map(|(_, thread)| thread.number).collect()
    }

    /// The body's thread is gone: its deputy thread ends.
    pub fn end_thread(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.leaving = true;
            thread.preempt(Job::new(channel::order(abi::OP_THREAD_EXIT, [0; 2], &[]), Purpose::Nothing));
        }
    }

    /// The deputy ends with this packet, after `words` went to its standard error.
    pub fn end(&mut self, packet: Vec<u8>, words: Option<&str>) {
        self.phase = Phase::Ending;
        let Some(thread) = self.any().and_then(|tid| self.threads.get_mut(&tid)) else { return };
        let last = Job::new(packet, Purpose::Nothing);
        match words.and_then(|w| channel::call(&message(w))) {
            Some(first) => {
                thread.preempt(Job::new(first, Purpose::Nothing));
                thread.give(last);
            }
            None => thread.preempt(last),
        }
    }

    /// Has it write words to its standard error.
    pub fn say(&mut self, words: &str) {
        if let Some(packet) = channel::call(&message(words)) {
            self.give_any(Job::new(packet, Purpose::Nothing));
        }
    }

    /// Remembers what was refused.
    pub fn refused(&mut self, line: String) {
        if self.refusals.back() == Some(&line) {
            return;
        }
        if self.refusals.len() == REFUSALS_MAX {
            self.refusals.pop_front();
        }
        self.refusals.push_back(line);
    }
}

/// The call write(2, words).
fn message(words: &str) -> room_protocol::message::Call {
    let data = words.as_bytes().to_vec();
    let args = [2, 0, data.len() as u64, 0, 0, 0];
    room_protocol::message::Call { pointers: 0b10, data, ..room_protocol::message::Call::new(libc::SYS_write, args) }
}

#[cfg(test)]
mod tests;
