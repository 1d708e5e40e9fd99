//! What the tracer does is done on account of one guest at a time. One on whose account it failed
//! is killed, and its end says why.

use crate::state::guests::Who;
use crate::supervisor::tracer::Tracer;
use os::contain::on_account_of;
use os::ptrace::{Event, HostTid, UsageBytes};
use room_protocol::ToHome;
use room_protocol::message::{Cause, Ending};

impl Tracer {
    /// Does `work`; one on whose account it fails is lost. Whether it succeeded.
    pub fn contain(&mut self, work: impl FnOnce(&mut Tracer)) -> bool {
        let room = self.room.clone();
        room.contain(None, || work(self)).is_some()
    }

    /// Handles an event. A stop that was not handled keeps its thread until that is killed; an end
    /// that was not handled is told here.
    pub fn contain_event(&mut self, tid: HostTid, event: Event, usage: &UsageBytes) {
        let who = self.room.guests().who(tid);
        let ends = matches!(event, Event::Exited(_) | Event::Killed(_));
        let handled = self.contain(|this| {
            who.into_iter().for_each(|who| on_account_of(who.pid));
            this.event(tid, event, usage);
        });
        if let (false, true, Some(Who { pid, tid })) = (handled, ends, who)
            && pid == tid
        {
            self.tell_lost(pid);
        }
    }

    /// Ends a body on whose account the warden has failed.
    pub fn lose(&mut self, pid: i32, why: String) {
        // Of one whose program does not run yet, home is told that it will not.
        if self.bodies.is_running(pid) {
            self.lost.0.insert(pid, why);
        }
        self.kill(pid);
    }

    /// The process has ended, and nothing more is known of it.
    fn tell_lost(&mut self, pid: i32) {
        self.bodies.forget(pid);
        self.room.guests().remove(pid);
        let cause = Cause::Warden { why: "the warden failed at its end".into() };
        self.room.tell(&ToHome::Exited { pid, how: Ending::Signal(libc::SIGKILL as u8), cpu_us: 0, cause });
    }
}
