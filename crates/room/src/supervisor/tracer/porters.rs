//! Commands to the porter: one at a time, each with what follows from its answer. The tracer never
//! waits for the porter, which it traces.

use crate::sandbox::porter::{Answer, Notice};
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::state::porter::Then;
use os::contain::on_account_of;
use room_protocol::ToHome;

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
