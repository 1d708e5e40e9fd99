//! The leases that the kernel knows of (fcntl(2), F_SETLEASE; /proc/locks in proc(5)).

use crate::{Error, Result};

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLease {
    /// The process that holds it, as this process' PID namespace numbers it.
    pub pid: i32,
    /// Somebody waits for it to be given up.
    pub breaking: bool,
    /// Device and inode of its file, as the kernel writes them.
    pub file: String,
}

/// All of them.
///
/// # Errors
/// /proc/locks cannot be read.
pub fn all() -> Result<Vec<KernelLease>> {
    let text = std::fs::read_to_string("/proc/locks").map_err(|e| Error::new("reading /proc/locks", e))?;
    Ok(text.lines().filter_map(parse).collect())
}

/// `3: LEASE  BREAKING  READ  712 fe:00:398 0 EOF`; behind the number stands `->` if the line is of
/// somebody who waits.
fn parse(line: &str) -> Option<KernelLease> {
    let mut words = line.split_whitespace().skip(1);
    if words.next()? != "LEASE" {
        return None;
    }
    let breaking = words.next()? == "BREAKING";
    let pid = words.nth(1)?.parse().ok()?;
    Some(KernelLease { pid, breaking, file: words.next()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let lease = |breaking| KernelLease { pid: 712, breaking, file: "fe:00:398".into() };
        assert_eq!(parse("1: LEASE  ACTIVE    READ  712 fe:00:398 0 EOF"), Some(lease(false)));
        assert_eq!(parse("1: LEASE  BREAKING  READ  712 fe:00:398 0 EOF"), Some(lease(true)));
        assert_eq!(parse("2: POSIX  ADVISORY  WRITE 712 fe:00:398 0 EOF"), None);
        assert_eq!(parse("3: -> FLOCK  ADVISORY  WRITE 712 fe:00:398 0 EOF"), None);
        assert_eq!(parse(""), None);
        assert!(all().is_ok());
    }
}
