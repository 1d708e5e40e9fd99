//! How a thread here is scheduled after home has set that for its deputy.

use os::ptrace::HostTid;
use os::scheduling::NICEST;

/// What a body does as its deputy has done.
#[derive(Clone, Copy, Debug)]
pub struct Follow {
    /// The thread that follows.
    pub host: HostTid,
    /// What home has set.
    pub what: What,
}

/// What home was asked to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A policy, with the flag that children do not get it.
    Policy(u32),
    /// Some of what sched_setattr(2) sets.
    Attributes {
        /// The policy, if it changes.
        policy: Option<u32>,
        /// The nice value, if it changes.
        nice: Option<i32>,
    },
    /// An I/O priority.
    IoPriority(u16),
}

impl Follow {
    /// Does it, as far as the kernel here goes along.
    pub fn run(&self) {
        let host = self.host.0;
        let policy = |policy: u32| os::scheduling::set_policy(host, policy);
        let done = match self.what {
            What::Policy(to) => policy(to),
            What::IoPriority(to) => os::scheduling::set_io_priority(host, to),
            What::Attributes { policy: to, nice } => {
                let niced = nice.map_or(Ok(()), |nice| os::scheduling::set_nice(host, nice.clamp(0, NICEST)));
                to.map_or(Ok(()), policy).and(niced)
            }
        };
        if let Err(e) = done {
            tracing::debug!("{e}");
        }
    }
}
