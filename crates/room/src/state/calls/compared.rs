//! What the kernel here says that two of its processes have in common.

use os::ptrace::HostTid;

/// Two things of processes that live here.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// Threads of these.
    pub hosts: [HostTid; 2],
    /// What is compared (linux/kcmp.h).
    pub what: i32,
    /// Descriptors, if these are compared.
    pub numbers: [u64; 2],
}

impl Compared {
    /// The result of kcmp(2) of them.
    pub fn result(self) -> i64 {
        let [first, second] = self.hosts.map(|host| host.0);
        os::kcmp::compare([first, second], self.what, self.numbers).unwrap_or_else(|e| -i64::from(e.errno()))
    }
}
