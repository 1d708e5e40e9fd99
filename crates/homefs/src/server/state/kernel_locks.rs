//! The locks of an open file description, as the kernel shows them.

use std::os::fd::{AsRawFd, OwnedFd};

/// A locked range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedRange {
    /// Whether the lock is exclusive.
    pub exclusive: bool,
    /// First byte of the range.
    pub start: i64,
    /// Number of bytes; 0 means to the end of the file.
    pub bytes: i64,
}

impl LockedRange {
    /// Reads the range of a `struct flock`.
    pub(crate) fn of(lock: &libc::flock) -> LockedRange {
        LockedRange { exclusive: lock.l_type == libc::F_WRLCK as i16, start: lock.l_start, bytes: lock.l_len }
    }

    /// Gives the last byte of the range.
    fn last(&self) -> i64 {
        if self.bytes == 0 { i64::MAX } else { self.start.saturating_add(self.bytes - 1) }
    }

    /// Tells whether two owners cannot hold both locks.
    pub(crate) fn conflicts(&self, other: &LockedRange) -> bool {
        (self.exclusive || other.exclusive) && self.start <= other.last() && other.start <= self.last()
    }
}

/// Reads the locks of an open file description from the kernel (proc_pid_fdinfo(5)).
pub(crate) fn locks_on(file: &OwnedFd) -> Vec<LockedRange> {
    lines_of_locks(file).iter().map(|line| lock_of_line(line)).collect()
}

/// Reads the lines of the locks of an open file description from the kernel.
pub(crate) fn lines_of_locks(file: &OwnedFd) -> Vec<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).unwrap_or_default();
    info.lines().filter(|line| line.starts_with("lock:")).map(str::to_owned).collect()
}

/// Rewrites a line of a lock, behind its number, as that of a lock of this kind that `pid` has set.
pub(crate) fn shown_line(line: &str, kind: &str, pid: i32) -> Option<String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, _, _, advisory, mode, _, file, start, end] = words.as_slice() else { return None };
    Some(format!("{kind:<6} {advisory:<9} {mode} {pid} {file} {start} {end}"))
}

/// Parses `lock: 1: OFDLCK ADVISORY READ -1 fe:01:1234 128 128`. A malformed line counts as a lock
/// of the whole file.
fn lock_of_line(line: &str) -> LockedRange {
    const ALL: LockedRange = LockedRange { exclusive: true, start: 0, bytes: 0 };
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [.., kind, _, _, start, end] = words.as_slice() else { return ALL };
    let start: Option<i64> = start.parse().ok();
    let bytes = match *end {
        "EOF" => Some(0),
        end => end.parse::<i64>().ok().zip(start).map(|(end, start)| end - start + 1),
    };
    match (start, bytes) {
        (Some(start), Some(bytes)) => LockedRange { exclusive: *kind != "READ", start, bytes },
        _ => ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_read_as_the_kernel_shows_them() {
        let range = |exclusive, start, bytes| LockedRange { exclusive, start, bytes };
        let shown = [
            ("lock:\t1: OFDLCK ADVISORY  READ -1 fe:01:1234 128 128", range(false, 128, 1)),
            ("lock:\t2: OFDLCK ADVISORY  WRITE -1 fe:01:1234 1073741826 1073742335", range(true, 1_073_741_826, 510)),
            ("lock:\t3: OFDLCK ADVISORY  WRITE -1 fe:01:1234 0 EOF", range(true, 0, 0)),
            ("lock:\tnonsense", range(true, 0, 0)),
        ];
        for (line, expected) in shown {
            assert_eq!(lock_of_line(line), expected, "{line}");
        }
    }

    #[test]
    fn a_lock_is_shown_as_its_owners() {
        let line = "lock:\t2: OFDLCK ADVISORY  WRITE -1 fe:01:1234 3 7";
        let posix = "POSIX  ADVISORY  WRITE 50 fe:01:1234 3 7";
        assert_eq!(shown_line(line, "POSIX", 50).as_deref(), Some(posix));
        assert_eq!(shown_line("lock:\tnonsense", "POSIX", 50), None);
    }
}
