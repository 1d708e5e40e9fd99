//! Two replies that depend on the system call that the requesting thread is in.
//!
//! FIFOs by path: the room's kernel would open the inode of a FIFO itself, as a FIFO of its own,
//! but both ends of a home's FIFO are at home. So a lookup for an open is answered with a stand-in:
//! a regular file to the room's kernel, whose reads and writes home serves.

use crate::proto::{
    EntryOut, FMODE_EXEC, GetxattrIn, IN_HEADER_BYTES, LK_OF_OPEN_FILE, LkIn, OUT_HEADER_BYTES, Opcode, OpenIn,
    Request, S_IFMT, STANDIN_BIT, STANDIN_BYTES,
};
use zerocopy::{FromBytes, IntoBytes};

/// Changes the reply to a lookup of a FIFO into one of its stand-in. Gives the reply and the inode
/// number; `None` if the reply is not about a FIFO.
pub(super) fn stand_in(reply: &[u8]) -> Option<(Vec<u8>, u64)> {
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
    Some((changed, entry.attr.ino))
}

/// The system call (x86-64) of a thread, from a line of `/proc/TID/syscall`
/// (`proc_pid_syscall(5)`).
#[derive(Clone, Copy)]
pub(super) struct CurrentCall<'a>(&'a str);

impl<'a> CurrentCall<'a> {
    /// Reads the line; `None` while the thread runs.
    pub(super) fn read(line: &'a str) -> Option<(CurrentCall<'a>, i64)> {
        let number = line.split_ascii_whitespace().next()?.parse().ok()?;
        Some((CurrentCall(line), number))
    }

    fn argument(self, index: usize) -> Option<u64> {
        let word = self.0.split_ascii_whitespace().nth(index + 1)?;
        u64::from_str_radix(word.trim_start_matches("0x"), 16).ok()
    }
}

/// Tells whether the thread opens a file by path. An open with O_PATH does not count: it only names
/// the file.
pub(super) fn is_open(line: &str) -> bool {
    let Some((call, number)) = CurrentCall::read(line) else { return false };
    let names_only = |index| call.argument(index).is_none_or(|flags| flags & libc::O_PATH as u64 != 0);
    match number {
        libc::SYS_open => !names_only(1),
        libc::SYS_openat => !names_only(2),
        libc::SYS_openat2 | libc::SYS_creat => true,
        _ => false,
    }
}

/// Tells whether the thread gives a file a name, with directories locked. True if its call is not
/// known.
pub(super) fn names_a_file(line: &str) -> bool {
    let calls = [libc::SYS_link, libc::SYS_linkat, libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2];
    CurrentCall::read(line).is_none_or(|(_, number)| calls.contains(&number))
}

/// Tells whether the thread sets a lock that belongs to the open file, not to its process.
pub(super) fn locks_for_open_file(line: &str) -> bool {
    let commands = [libc::F_OFD_SETLK, libc::F_OFD_SETLKW];
    CurrentCall::read(line).is_some_and(|(call, number)| {
        number == libc::SYS_fcntl && call.argument(1).is_some_and(|command| commands.contains(&(command as i32)))
    })
}

/// Marks the request to set a lock as one for the open file.
pub(super) fn for_open_file(request: &[u8]) -> Option<Vec<u8>> {
    let mut changed = request.to_vec();
    let flags_at = IN_HEADER_BYTES + std::mem::offset_of!(LkIn, lk_flags);
    let flags = changed.get_mut(flags_at..flags_at + 4)?;
    let word = u32::from_le_bytes([flags[0], flags[1], flags[2], flags[3]]) | LK_OF_OPEN_FILE;
    flags.copy_from_slice(&word.to_le_bytes());
    Some(changed)
}

/// Tells whether the kernel looks for file capabilities by itself, because the thread executes or
/// changes a file, and not for a call about an extended attribute. Changes drop capabilities at
/// home, and guests gain none by executing (no_new_privs), so the answer is always that there are
/// none.
pub(super) fn is_kernel_asking(line: &str) -> bool {
    const SYS_GETXATTRAT: i64 = 464;
    let own = [libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr, SYS_GETXATTRAT, libc::SYS_io_uring_enter];
    CurrentCall::read(line).is_some_and(|(_, number)| number >= 0 && !own.contains(&number))
}

/// Tells whether the request reads the attribute that holds file capabilities.
pub(super) fn asks_for_capabilities(request: &Request<'_>) -> bool {
    let mut args = request.args();
    request.opcode == Some(Opcode::Getxattr)
        && args.take::<GetxattrIn>().is_ok()
        && args.string().is_ok_and(|name| name == c"security.capability")
}

/// Tells whether the request opens a file to execute it.
pub(super) fn is_to_execute(request: &Request<'_>) -> bool {
    let open = (request.opcode == Some(Opcode::Open)).then(|| request.args().take::<OpenIn>().ok()).flatten();
    open.is_some_and(|open| open.flags & FMODE_EXEC != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known() {
        let line =
            |number: i64, flags: i32| format!("{number} 0xffffff9c 0x7ffc 0x{flags:x} 0x0 0x0 0x0 0x7ffc 0x7f\n");
        assert!(is_open(&line(libc::SYS_openat, libc::O_RDONLY)));
        assert!(!is_open(&line(libc::SYS_openat, libc::O_PATH | libc::O_NOFOLLOW)));
        assert!(!is_open(&line(libc::SYS_newfstatat, 0)));
        assert!(is_kernel_asking(&line(libc::SYS_write, 0)) && is_kernel_asking(&line(libc::SYS_execve, 0)));
        assert!(
            !is_kernel_asking(&line(libc::SYS_getxattr, 0))
                && !is_kernel_asking("running")
                && !is_kernel_asking("-1 0x0")
        );
        assert!(names_a_file(&line(libc::SYS_linkat, 0)) && names_a_file("running\n"));
        assert!(!names_a_file(&line(libc::SYS_newfstatat, 0)) && !names_a_file("-1 0x0 0x0\n"));
        assert!(!is_open("running\n") && !is_open("-1 0x0 0x0\n") && !is_open(""));
    }
}
