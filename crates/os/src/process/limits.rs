//! Resource limits of another process (prlimit(2), proc_pid_limits(5)).

use super::{LIMITS, odd, slurp};
use crate::error::Result;

/// One limit of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Soft limit: the kernel enforces this one.
    pub soft: u64,
    /// Hard limit: the process may raise the soft one up to this.
    pub hard: u64,
}

/// Sets limit `which` (`RLIMIT_`) of process `pid`, as far as its hard limit allows.
pub fn limit(pid: i32, which: u32, to: Limit) -> Result<()> {
    let hard = to.hard.min(get(pid, which)?.rlim_max);
    set(pid, which, libc::rlimit64 { rlim_cur: to.soft.min(hard), rlim_max: hard })
}

pub(super) fn get(pid: i32, which: u32) -> Result<libc::rlimit64> {
    // SAFETY: all zero is a valid limit.
    let mut limit: libc::rlimit64 = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one limit.
    let done = unsafe { libc::prlimit64(pid, which, std::ptr::null(), &mut limit) };
    crate::error::check(done, || format!("reading limit {which} of {pid}"))?;
    Ok(limit)
}

pub(super) fn set(pid: i32, which: u32, limit: libc::rlimit64) -> Result<()> {
    // SAFETY: the kernel reads one limit.
    let done = unsafe { libc::prlimit64(pid, which, &limit, std::ptr::null_mut()) };
    crate::error::check(done, || format!("setting limit {which} of {pid}")).map(drop)
}

/// Reads /proc/PID/limits: soft and hard limits. The file has a header, then a line for each limit,
/// in the order of their numbers (fs/proc/base.c).
pub(super) fn by_file(pid: i32) -> Result<Vec<(u64, u64)>> {
    /// Where the soft limit begins: behind the name.
    const NAME_BYTES: usize = 26;
    let text = slurp(pid, "limits")?;
    let text = String::from_utf8_lossy(&text);
    let value = |word: &str| if word == "unlimited" { Some(u64::MAX) } else { word.parse().ok() };
    let line = |line: &str| {
        let mut words = line.get(NAME_BYTES..)?.split_whitespace();
        Some((value(words.next()?)?, value(words.next()?)?))
    };
    let found: Option<Vec<_>> = text.lines().skip(1).take(LIMITS).map(line).collect();
    found.filter(|limits| limits.len() == LIMITS).ok_or_else(|| odd(pid, "limits"))
}
