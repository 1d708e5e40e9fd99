//! More descriptors for another process than its limit allows.

use super::limits;

/// A raised limit of a process' descriptors (RLIMIT_NOFILE of getrlimit(2)), set back at the end of
/// this value. tern needs some descriptors in a process that it takes apart or rebuilds.
#[derive(Debug)]
pub struct MoreDescriptors {
    pid: i32,
    before: libc::rlimit64,
}

impl MoreDescriptors {
    /// Raises the limit. `None` if it is high enough, or if this process may not raise it.
    pub fn give(pid: i32) -> Option<MoreDescriptors> {
        const MORE: u64 = 8192;
        let before = limits::get(pid, libc::RLIMIT_NOFILE).ok().filter(|limit| limit.rlim_cur < MORE)?;
        let raised = MORE + before.rlim_cur;
        let limit = libc::rlimit64 { rlim_cur: raised, rlim_max: raised.max(before.rlim_max) };
        // Without CAP_SYS_RESOURCE, up to the hard limit.
        let at_most = libc::rlimit64 { rlim_cur: before.rlim_max, ..before };
        let set = |limit| limits::set(pid, libc::RLIMIT_NOFILE, limit);
        set(limit).or_else(|_| set(at_most)).ok().map(|()| MoreDescriptors { pid, before })
    }
}

impl Drop for MoreDescriptors {
    fn drop(&mut self) {
        // This fails if the process has ended.
        let _ = limits::set(self.pid, libc::RLIMIT_NOFILE, self.before);
    }
}
