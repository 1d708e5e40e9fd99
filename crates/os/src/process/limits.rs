//! Limits of another process as its file in /proc shows them.

use super::{LIMITS, odd, slurp};
use crate::error::Result;

/// Reads /proc/PID/limits: soft and hard limits. The file has a header, then a line for each limit, in the order of their numbers (fs/proc/base.c).
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
