//! Replies of deputies, and their effects: results for the room, new threads and children, rights.

use crate::agent::event_loop::EventLoop;
use crate::deputy::job::{Job, Purpose};
use crate::deputy::proof::ProofError;
use crate::deputy::record::Deputy;
use crate::deputy::{channel, rights};
use crate::proxy::{calls, standins};
use crate::room::poller::Source;
use os::pidfd::PidFd;
use room_protocol::ToRoom;
use rustix::event::epoll::EventFlags;
use std::os::fd::{AsFd, OwnedFd};

/// Why a child is not taken over.
enum ChildError {
    /// Its parent lies.
    NotTrusted(ProofError),
    /// The child cannot be watched, or has ended.
    NotWatched(os::Error),
}

impl From<os::Error> for ChildError {
    fn from(e: os::Error) -> ChildError {
        ChildError::NotWatched(e)
    }
}

/// The reply of a deputy's thread.
pub struct Replied {
    /// PID of the deputy.
    pub pid: i32,
    /// TID of its thread.
    pub tid: i32,
    /// The result of the kernel or of the blob.
    pub result: i64,
    /// The bytes that the call wrote.
    pub out: Vec<u8>,
}

/// A thread that has made a child.
struct Maker {
    pid: i32,
    tid: i32,
}

impl EventLoop {
    /// Does what the reply of a deputy's thread leads to.
    pub fn done(&mut self, job: Job, replied: Replied) {
        let Replied { pid, tid, result, out } = replied;
        match job.purpose {
            Purpose::Call { id, nr, standin, securebits } => {
                self.room.table().calls.remove(&id);
                if rights::changes_rights(nr) {
                    self.read_rights(pid, tid);
                    self.note_securebits(pid, securebits.filter(|_| result >= 0));
                }
                let ready = standin.and_then(|standin| self.room.ready_now(standin));
                self.room.tell(&ToRoom::Return { id, result, out, ready });
            }
            Purpose::Take { id, standin, ref call } => {
                self.room.table().calls.remove(&id);
                match i32::try_from(result) {
                    Ok(fd) if !job.is_cancelled() => {
                        self.room.table().took(pid, fd, standin);
                        calls::forward(&self.room, id, pid, tid, (**call).clone());
                    }
                    _ => self.room.tell(&ToRoom::Return {
                        id,
                        result: result.min(-i64::from(libc::EINTR)),
                        out: Vec::new(),
                        ready: None,
                    }),
                }
            }
            Purpose::Thread { id, channel } => {
                let (made, number) = channel::with_channel(result);
                let result = if result < 0 { result } else { i64::from(made) };
                if result > 0 && !self.may_be_new_thread(pid, made) {
                    return self.expel(pid, &ProofError::Nonsense { pid, what: "that another's thread is its own" });
                }
                if result > 0 {
                    let source = Source::Channel { pid, tid: made };
                    let added = self.room.poller.add(channel.as_fd(), source, EventFlags::IN);
                    if let Some(deputy) = self.room.table().deputies.get_mut(&pid).filter(|_| added.is_ok()) {
                        deputy.add_thread(made, channel, Some(number));
                        deputy.inherit_rights(tid, made);
                    }
                }
                self.room.tell(&ToRoom::Return { id, result, out, ready: None });
            }
            Purpose::Fork { id, channel } => {
                let result = match i32::try_from(result) {
                    Ok(child) if child > 0 => match self.child(Maker { pid, tid }, child, channel) {
                        Ok(()) => result,
                        Err(ChildError::NotTrusted(why)) => return self.expel(pid, &why),
                        Err(ChildError::NotWatched(e)) => {
                            tracing::warn!(pid, child, "a child cannot be watched: {e}");
                            -i64::from(libc::EAGAIN)
                        }
                    },
                    _ => result,
                };
                standins::forked(&mut self.room.table(), pid);
                self.room.tell(&ToRoom::Return { id, result, out, ready: None });
            }
            Purpose::Stop => {
                if let Some(deputy) = self.room.table().deputies.get_mut(&pid) {
                    deputy.stopping = false;
                }
                self.room.tell(&ToRoom::GoOn { pid });
            }
            // Calls that wait for it are made when all that was said is heard.
            Purpose::Close(token) => drop(token),
            Purpose::Nothing | Purpose::Enter => {}
        }
    }

    /// Whether a deputy may say that it has made this thread: the kernel knows it as the deputy's,
    /// and nobody else does.
    fn may_be_new_thread(&self, pid: i32, tid: i32) -> bool {
        let is_known = self.room.table().deputies.get(&pid).is_some_and(|d| d.threads.contains_key(&tid));
        !is_known && std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists()
    }

    /// A deputy has forked: its child is a deputy too, once it has said so itself.
    fn child(&mut self, maker: Maker, pid: i32, channel: OwnedFd) -> Result<(), ChildError> {
        let parent = maker.pid;
        // Held before it is looked at, so that the one is the other.
        let pidfd = PidFd::open(pid);
        let child = {
            let table = self.room.table();
            let Some(p) = table.deputies.get(&parent).filter(|_| !table.deputies.contains_key(&pid)) else {
                return Err(ChildError::NotTrusted(ProofError::NoChild { pid, parent }));
            };
            let proof = match p.proof.child(pid) {
                Ok(proof) => proof,
                // Its parent made it, and somebody has killed it since.
                Err(ProofError::Unseen { source, .. }) => return Err(ChildError::NotWatched(source)),
                Err(why) => return Err(ChildError::NotTrusted(why)),
            };
            let misses = if p.lends { Some(parent) } else { p.misses };
            let credentials = p.rights(maker.tid).clone();
            Deputy { misses, credentials, ..p.child(pidfd?, proof, channel) }
        };
        let mut child = child;
        // Another thread of the parent's may have got a descriptor since the fork.
        child.standins.retain(|_, fds| fds.iter().all(|fd| os::process::same_in_both(parent, pid, *fd)));
        Ok(self.room.adopt(pid, child)?)
    }

    /// Notes the securebits that a call has set.
    fn note_securebits(&mut self, pid: i32, set: Option<u32>) {
        if let (Some(set), Some(deputy)) = (set, self.room.table().deputies.get_mut(&pid)) {
            deputy.securebits = set;
        }
    }

    /// Reads the rights of a thread that has made a call which may have changed them: files are
    /// served with those that the thread has now, and its body takes them.
    fn read_rights(&mut self, pid: i32, tid: i32) {
        let read = rights::credentials(tid);
        // After that: a program that the process has executed since has not been read.
        let proven = self.room.table().deputies.get_mut(&pid).map(|deputy| deputy.proof.check());
        if let Some(Err(why)) = proven {
            return self.expel(pid, &why);
        }
        let Ok(credentials) = read else { return };
        let changed = {
            let mut table = self.room.table();
            let Some(deputy) = table.deputies.get_mut(&pid) else { return };
            deputy.set_rights(tid, &credentials)
        };
        if changed {
            self.room.tell(&ToRoom::Rights { tid, credentials: Box::new(credentials) });
        }
    }
}
