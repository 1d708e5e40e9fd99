//! What entries of /dev look like.

use crate::sandbox::guest_memory;
use homefs::proto::{Attr, Dirent, EntryOut, ReplyBuf};
use os::ptrace::HostTid;
use room_protocol::message::{DeviceName, DeviceNode};

/// Devices that are the node's own, and are mounted over these: major and minor number.
const OWN_DEVICES: [(&[u8], u32, u32); 5] =
    [(b"null", 1, 3), (b"zero", 1, 5), (b"full", 1, 7), (b"random", 1, 8), (b"urandom", 1, 9)];
/// A directory that the room has of its own.
const SHM: &[u8] = b"shm";
/// Nodes of the room's own entries: below those of paths, above those of stand-ins.
const FIRST_OWN: u64 = 1 << 36;
const FOR_EVER_S: u64 = 1 << 32;

/// An entry of /dev itself that is the room's own: something is mounted on it, which an answer that
/// changed would take away.
pub fn own(name: &[u8]) -> Option<EntryOut> {
    let at = OWN_DEVICES.iter().position(|(own, ..)| *own == name);
    let (number, mode, rdev) = match at {
        Some(at) => {
            let (_, major, minor) = OWN_DEVICES[at];
            (at as u64, libc::S_IFCHR | 0o666, minor | major << 8)
        }
        None if name == SHM => (OWN_DEVICES.len() as u64, libc::S_IFDIR | 0o1777, 0),
        None => return None,
    };
    let nodeid = FIRST_OWN + number;
    let attr = Attr { ino: nodeid, mode, rdev, nlink: 1, blksize: 4096, ..Attr::default() };
    Some(EntryOut { nodeid, entry_valid: FOR_EVER_S, attr_valid: FOR_EVER_S, attr, ..EntryOut::default() })
}

/// Attributes as home has them. The root of the file system keeps its number.
pub fn attributes(node: u64, found: &DeviceNode) -> Attr {
    let ino = if node == homefs::proto::ROOT_ID { node } else { found.ino };
    Attr {
        ino,
        size: found.size,
        mode: found.mode,
        nlink: found.nlink,
        uid: found.uid,
        gid: found.gid,
        rdev: found.rdev,
        atime: found.times_s[0],
        mtime: found.times_s[1],
        ctime: found.times_s[2],
        blksize: 4096,
        ..Attr::default()
    }
}

/// As much of a listing as fits, from this offset on.
pub fn list(names: &[DeviceName], offset: u64, most: usize, reply: &mut ReplyBuf) {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(names.len());
    for (at, entry) in names.iter().enumerate().skip(from) {
        let padded = entry.name.len().next_multiple_of(8);
        if reply.len() + size_of::<Dirent>() + padded > most {
            break;
        }
        let namelen = entry.name.len() as u32;
        reply.push(&Dirent { ino: entry.ino, off: at as u64 + 1, namelen, kind: u32::from(entry.kind) });
        reply.extend(&entry.name);
        reply.extend(&[0; 8][..padded - entry.name.len()]);
    }
}

/// The flags with which a thread is opening a path now, if it is (`proc_pid_syscall(5)`). O_PATH
/// only names what it opens.
pub fn open_flags(host: HostTid) -> Option<i32> {
    let call = os::waiting::call(host.0)?;
    let flags = match call.number {
        libc::SYS_open => call.args[1],
        libc::SYS_openat => call.args[2],
        libc::SYS_creat => (libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC) as u64,
        // `struct open_how` begins with the flags.
        libc::SYS_openat2 => {
            let mut how = [0; 8];
            guest_memory::read(host.0, call.args[2], &mut how).ok()?;
            u64::from_le_bytes(how)
        }
        _ => return None,
    } as i32;
    (flags & libc::O_PATH == 0).then_some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_entries_never_change() {
        assert_eq!(own(b"null").map(|e| (e.attr.mode, e.attr.rdev)), Some((libc::S_IFCHR | 0o666, 0x103)));
        assert_eq!(own(b"shm").map(|e| e.attr.mode), Some(libc::S_IFDIR | 0o1777));
        assert_eq!(own(b"tty"), None);
    }

    #[test]
    fn listings_come_in_parts() {
        let names: Vec<_> =
            (0..10).map(|i| DeviceName { name: format!("tty{i}").into_bytes(), ino: i, kind: 2 }).collect();
        let (mut reply, mut offset, mut parts) = (ReplyBuf::default(), 0, 0);
        while offset < 10 {
            reply.clear();
            list(&names, offset, 3 * 32, &mut reply);
            assert!(reply.len() % 32 == 0 && !reply.is_empty());
            offset += reply.len() as u64 / 32;
            parts += 1;
        }
        assert_eq!(parts, 4);
        list(&names, u64::MAX, 4096, &mut reply);
    }
}
