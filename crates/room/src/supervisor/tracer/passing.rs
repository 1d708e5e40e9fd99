//! Descriptors of the room's own that a guest passes through a socket of home's (SCM_RIGHTS): their
//! open files become home's in place, as those of a body that leaves do
//! ([`crate::supervisor::tracer::sharing`]). The process that passes stands still meanwhile, for
//! itself, with all who have the same files; then its call is made again, and finds stand-ins.

use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::state::departing::{Departure, DepartureState};
use crate::supervisor::tracer::state::passing::Passing;
use os::ptrace::{self, HostTid};
use room_protocol::Refusal;
use std::collections::BTreeSet;

impl Tracer {
    /// A thread waits in a call that passes these descriptors.
    pub fn pass(&mut self, host: HostTid, fds: BTreeSet<i32>) {
        let Some(who) = self.room.guests().who(host) else { return };
        let stands = self.departing.states.contains_key(&who.pid);
        if stands || !self.bodies.is_running(who.pid) {
            let why = Refusal { why: "its process comes or goes".into(), retryable: true };
            self.room.unpassed.add(host, &why);
            // Its call is made again; one that is gone makes none.
            drop(ptrace::interrupt(host));
            return;
        }
        let slept = self.slept(who.pid);
        self.stop_for(who.pid, Departure::passing(slept, who.pid, Passing::Message { host, fds }));
        self.check_leaving(who.pid);
    }

    /// A body and those that stand still for it go on: what it passes is home's.
    pub fn passed(&mut self, pid: i32) {
        if let Some(DepartureState::Standing(_, going)) = self.departing.states.get_mut(&pid) {
            going.passing = None;
        }
        self.let_go(pid);
    }

    /// The same, and what it passes is not home's.
    pub fn not_passed(&mut self, pid: i32, passing: Option<Passing>, why: &Refusal) {
        match passing {
            Some(Passing::Message { host, fds }) => {
                tracing::debug!("process {pid} cannot pass descriptors {fds:?} from here: {}", why.why);
                self.room.unpassed.add(host, why);
            }
            Some(Passing::Stream(standin)) => self.not_streamed(standin, &why.why),
            Some(Passing::Standin { standin, .. }) => self.unstream_later(standin, &why.why),
            None => {}
        }
        self.let_go(pid);
    }
}
