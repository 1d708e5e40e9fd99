//! How many descriptors another process may have.

use crate::Result;

/// How many descriptors a process may have (RLIMIT_NOFILE in getrlimit(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorLimits {
    /// Soft limit: the kernel enforces this one.
    pub soft: u64,
    /// Hard limit: the process may raise the soft one up to this.
    pub hard: u64,
}

/// Lets process `pid` have so many descriptors, as far as its hard limit goes.
pub fn limit_descriptors(pid: i32, limits: DescriptorLimits) -> Result<()> {
    let mut limit = descriptor_limit(pid)?;
    limit.rlim_max = limits.hard.min(limit.rlim_max);
    limit.rlim_cur = limits.soft.min(limit.rlim_max);
    set_descriptor_limit(pid, limit)
}

fn descriptor_limit(pid: i32) -> Result<libc::rlimit64> {
    // SAFETY: all zero is a valid limit.
    let mut limit: libc::rlimit64 = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one limit.
    let done = unsafe { libc::prlimit64(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &mut limit) };
    crate::error::check(done, || format!("reading the limit of descriptors of {pid}"))?;
    Ok(limit)
}

fn set_descriptor_limit(pid: i32, limit: libc::rlimit64) -> Result<()> {
    // SAFETY: the kernel reads one limit.
    let done = unsafe { libc::prlimit64(pid, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) };
    crate::error::check(done, || format!("limiting the descriptors of {pid}")).map(drop)
}

/// A process may have more descriptors than its limit says, as long as this lives: tern needs some
/// of its own in one that it takes apart or puts together.
#[derive(Debug)]
pub struct MoreDescriptors {
    pid: i32,
    before: libc::rlimit64,
}

impl MoreDescriptors {
    /// So many more. `None`: it has enough, or this process may not give them to it.
    pub fn give(pid: i32) -> Option<MoreDescriptors> {
        const MORE: u64 = 8192;
        let before = descriptor_limit(pid).ok().filter(|limit| limit.rlim_cur < MORE)?;
        let raised = MORE + before.rlim_cur;
        let limit = libc::rlimit64 { rlim_cur: raised, rlim_max: raised.max(before.rlim_max) };
        // Without the right to raise what is allowed at most (CAP_SYS_RESOURCE), that much.
        let at_most = libc::rlimit64 { rlim_cur: before.rlim_max, ..before };
        let given = set_descriptor_limit(pid, limit).or_else(|_| set_descriptor_limit(pid, at_most));
        given.ok().map(|()| MoreDescriptors { pid, before })
    }
}

impl Drop for MoreDescriptors {
    fn drop(&mut self) {
        // One that has ended has no limits.
        let _ = set_descriptor_limit(self.pid, self.before);
    }
}
