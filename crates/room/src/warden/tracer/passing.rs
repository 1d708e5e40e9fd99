//! Descriptors of the room's own that a guest passes through a socket of home's (SCM_RIGHTS): their
//! open files become home's in place, as those of a body that leaves do ([`super::sharing`]). The
//! process that passes stands still meanwhile, for itself, with all who have the same files; then
//! its call is made again, and finds stand-ins.

use super::Tracer;
use super::departing::{Going, State};
use crate::warden::sharers::{Commons, Sought};
use os::ptrace::{self, HostTid};
use room_protocol::Refusal;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

/// How often a call is made again because of something that stood in the way for a moment; then its
/// process goes home for it.
const TRIES_MAX: u32 = 100;

/// A call that passes descriptors: its thread, and their numbers.
#[derive(Clone, Debug)]
pub struct Passing {
    host: HostTid,
    fds: BTreeSet<i32>,
}

impl Passing {
    /// The open files that have to become home's.
    pub fn sought(&self) -> Sought {
        Sought::Behind(self.fds.clone())
    }

    /// Why they cannot, if some of them are none of `found`.
    pub fn lacks(&self, pid: i32, found: &Commons) -> Option<Refusal> {
        let why = || "a descriptor that it passes is of a kind that only comes home with its process";
        (!found.have(pid, &self.fds)).then(|| why().into())
    }
}

/// Calls that could not pass their descriptors from here, by thread: how often they were made
/// again.
#[derive(Debug, Default)]
pub struct Unpassed(Mutex<HashMap<HostTid, u32>>);

impl Unpassed {
    fn change<T>(&self, change: impl FnOnce(&mut HashMap<HostTid, u32>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this thread's process must go home for what it passes.
    pub fn must_go(&self, host: HostTid) -> bool {
        self.change(|all| all.get(&host).is_some_and(|tries| *tries >= TRIES_MAX))
    }

    /// The thread has passed something, or goes home, or has ended.
    pub fn forget(&self, host: HostTid) {
        self.change(|all| all.remove(&host));
    }

    fn add(&self, host: HostTid, why: &Refusal) {
        self.change(|all| {
            let tries = all.entry(host).or_insert(0);
            *tries = if why.fleeting { *tries + 1 } else { TRIES_MAX };
        });
    }
}

impl Tracer {
    /// A thread waits in a call that passes these descriptors.
    pub(super) fn pass(&mut self, host: HostTid, fds: BTreeSet<i32>) {
        let Some(who) = self.room.guests().who(host) else { return };
        let stands = self.departing.states.contains_key(&who.pid);
        if stands || !self.bodies.is_running(who.pid) {
            let why = Refusal { why: "its process comes or goes".into(), fleeting: true };
            self.room.unpassed.add(host, &why);
            // Its call is made again; one that is gone makes none.
            drop(ptrace::interrupt(host));
            return;
        }
        let slept = self.slept(who.pid);
        self.stop_for(who.pid, Going::passing(slept, who.pid, Passing { host, fds }));
        self.check_leaving(who.pid);
    }

    /// A body and those that stand still for it go on: what it passes is home's.
    pub(super) fn passed(&mut self, pid: i32) {
        if let Some(State::Standing(_, going)) = self.departing.states.get_mut(&pid) {
            going.passing = None;
        }
        self.let_go(pid);
    }

    /// The same, and what it passes is not home's.
    pub(super) fn not_passed(&mut self, pid: i32, passing: Option<Passing>, why: &Refusal) {
        if let Some(Passing { host, fds }) = passing {
            tracing::debug!("process {pid} cannot pass descriptors {fds:?} from here: {}", why.why);
            self.room.unpassed.add(host, why);
        }
        self.let_go(pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_for_a_moment_is_tried_again() {
        let (unpassed, host) = (Unpassed::default(), HostTid(7));
        for _ in 1..TRIES_MAX {
            unpassed.add(host, &Refusal { why: String::new(), fleeting: true });
        }
        assert!(!unpassed.must_go(host));
        unpassed.add(host, &Refusal { why: String::new(), fleeting: true });
        assert!(unpassed.must_go(host));
        unpassed.forget(host);
        unpassed.add(host, &"for good".into());
        assert!(unpassed.must_go(host));
    }
}
