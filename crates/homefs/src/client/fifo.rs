//! FIFOs by path. The room's kernel would open a FIFO's inode itself, as one of its own; but both ends of a home's FIFO are at home. So a
//! lookup on the way to an open is answered with a stand-in: a regular file to the room's kernel, whose reads and writes the home serves.

use crate::proto::{EntryOut, OUT_HEADER_BYTES, S_IFMT, STANDIN_BIT, STANDIN_BYTES};
use zerocopy::{FromBytes, IntoBytes};

/// The reply to a lookup, changed to name the stand-in, if it names a FIFO.
pub(super) fn stand_in(reply: &[u8]) -> Option<Vec<u8>> {
    let (mut entry, _) = EntryOut::read_from_prefix(reply.get(OUT_HEADER_BYTES..)?).ok()?;
    if entry.attr.mode & S_IFMT != libc::S_IFIFO {
        return None;
    }
    entry.nodeid |= STANDIN_BIT;
    (entry.entry_valid, entry.attr_valid) = (0, 0);
    entry.attr.mode = (entry.attr.mode & !S_IFMT) | libc::S_IFREG;
    entry.attr.size = STANDIN_BYTES;
    let mut changed = reply.to_vec();
    changed.get_mut(OUT_HEADER_BYTES..OUT_HEADER_BYTES + size_of::<EntryOut>())?.copy_from_slice(entry.as_bytes());
    Some(changed)
}

/// Does this line of `/proc/TID/syscall` (`proc_pid_syscall(5)`) show a call that opens a file by its path (x86-64)? An open with O_PATH
/// does not count: it only names the file.
pub fn is_open_call(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let Some(number) = words.next().and_then(|n| n.parse::<i64>().ok()) else { return false };
    let argument = |index: usize| {
        let word = words.clone().nth(index)?;
        u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
    };
    let names_only = |index: usize| argument(index).is_none_or(|flags| flags & libc::O_PATH as u64 != 0);
    match number {
        libc::SYS_open => !names_only(1),
        libc::SYS_openat => !names_only(2),
        libc::SYS_openat2 | libc::SYS_creat => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_calls_are_known() {
        let line =
            |number: i64, flags: i32| format!("{number} 0xffffff9c 0x7ffc 0x{flags:x} 0x0 0x0 0x0 0x7ffc 0x7f\n");
        assert!(is_open_call(&line(libc::SYS_openat, libc::O_RDONLY)));
        assert!(!is_open_call(&line(libc::SYS_openat, libc::O_PATH | libc::O_NOFOLLOW)));
        assert!(!is_open_call(&line(libc::SYS_newfstatat, 0)));
        assert!(!is_open_call("running\n") && !is_open_call("-1 0x0 0x0\n") && !is_open_call(""));
    }
}
