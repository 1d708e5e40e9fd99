//! Signals that tell of a descriptor: home's kernel names the deputy's, and the program knows its
//! own.

use crate::supervisor::tracer::Tracer;
use os::ptrace::HostTid;
use os::signal_descriptor;

impl Tracer {
    /// What a signal from home carries, as its process understands it: with the lowest of its
    /// descriptors that stands for home's.
    pub fn understood(&self, pid: i32, info: signal_descriptor::Info) -> signal_descriptor::Info {
        let (Some(at_home), Some(host)) = (signal_descriptor::descriptor(&info), self.room.guests().host(pid)) else {
            return info;
        };
        let is_it = |fd: &i32| self.stands_for(pid, host, *fd) == Some(at_home);
        // Most have the same number.
        let own = Some(at_home).filter(is_it).or_else(|| {
            let all = os::process::descriptors(host.0).unwrap_or_default();
            all.into_iter().find(is_it)
        });
        own.map_or(info, |fd| signal_descriptor::with_descriptor(info, fd))
    }

    fn stands_for(&self, pid: i32, host: HostTid, fd: i32) -> Option<i32> {
        let standin = self.room.standin_of(host, fd)?;
        self.room.guests().get(pid)?.numbers.get(&standin).copied()
    }
}
