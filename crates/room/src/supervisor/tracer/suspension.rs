//! A suspended room: every thread of the bodies stands still.
//!
//! The tracer asks each thread to stop, as for a move. It keeps the events of threads meanwhile,
//! their ends apart, and handles them when the suspension is over: the thread stands in its stop
//! until then, and makes a call of home's again as after any other stop that nobody needs any more.
//! A thread that waits for home in the kernel stops when home has answered, before its program's
//! next instruction.

use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::state::suspension::Kept;
use os::ptrace::{self, Event, HostTid, UsageBytes};
use room_protocol::ToHome;

impl Tracer {
    /// Lets all bodies stand still, and tells home that they do.
    pub fn suspend(&mut self) {
        self.kept_stops.get_or_insert_default();
        self.interrupt_all();
        self.room.tell(&ToHome::Suspended);
    }

    /// Lets all bodies go on, and tells home so.
    pub fn wake(&mut self) {
        for Kept { tid, event, usage } in self.kept_stops.take().into_iter().flatten() {
            self.contain_event(tid, event, &usage);
        }
        self.room.tell(&ToHome::Awake);
    }

    /// Keeps a stop while the room is suspended; gives back what is to be handled now.
    pub fn keep_stop(&mut self, tid: HostTid, event: Event, usage: UsageBytes) -> Option<Kept> {
        if tid == self.porter.host {
            return Some(Kept { tid, event, usage });
        }
        let ends = matches!(event, Event::Exited(_) | Event::Killed(_));
        let kept = Kept { tid, event, usage };
        match &mut self.kept_stops {
            None => Some(kept),
            // Its number may be another's soon.
            Some(stops) if ends => {
                stops.retain(|stop| stop.tid != tid);
                Some(kept)
            }
            Some(stops) => {
                stops.push(kept);
                None
            }
        }
    }

    /// Asks all threads to stop that were seen to begin. One that has ended is reported.
    fn interrupt_all(&self) {
        let pids = self.room.guests().pids();
        for pid in pids {
            let threads = self.room.guests().threads_of(pid);
            threads.iter().filter(|(host, _)| !self.births.is_unseen(*host)).for_each(|(host, _)| {
                drop(ptrace::interrupt(*host));
            });
        }
    }
}
