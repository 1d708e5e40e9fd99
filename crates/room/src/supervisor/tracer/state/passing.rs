//! A call that passes descriptors of the room's own to home.

use crate::supervisor::sharers::common_files::{Commons, Sought};
use os::ptrace::HostTid;
use room_protocol::Refusal;
use std::collections::BTreeSet;

/// A call that passes descriptors: its thread, and their numbers.
#[derive(Clone, Debug)]
pub struct Passing {
    pub host: HostTid,
    pub fds: BTreeSet<i32>,
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
