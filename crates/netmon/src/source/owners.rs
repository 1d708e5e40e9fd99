//! Which process has a socket, and as which descriptor.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use super::processes::program;

/// A process with a descriptor of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// PID of the process.
    pub pid: i32,
    /// Number of its descriptor.
    pub fd: i32,
    /// The name of its program.
    pub program: String,
}

/// Owners of sockets, as far as they were found.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    by_inode: HashMap<u32, Owner>,
    /// Processes whose descriptors cannot be listed.
    pub unreadable: Vec<i32>,
}

impl Owners {
    /// Looks through the descriptors of these processes. Of several owners of a socket the first
    /// counts.
    pub fn of(pids: &[i32]) -> Owners {
        let mut owners = Owners::default();
        for pid in pids {
            owners.add(*pid);
        }
        owners
    }

    fn add(&mut self, pid: i32) {
        let entries = match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(entries) => entries,
            Err(e) => {
                if e.kind() == std::io::ErrorKind::PermissionDenied {
                    self.unreadable.push(pid);
                }
                return;
            }
        };
        let mut name = None;
        for entry in entries.flatten() {
            let Some(fd) = entry.file_name().to_str().and_then(|text| text.parse().ok()) else { continue };
            let Some(inode) = fs::read_link(entry.path()).ok().and_then(|target| inode(&target.to_string_lossy()))
            else {
                continue;
            };
            let program = name.get_or_insert_with(|| program(pid).unwrap_or_default()).clone();
            self.by_inode.entry(inode).or_insert(Owner { pid, fd, program });
        }
    }

    /// Gives the owner of a socket.
    pub fn owner(&self, inode: u32) -> Option<&Owner> {
        self.by_inode.get(&inode)
    }

    /// Lists all sockets that were found.
    pub fn inodes(&self) -> impl Iterator<Item = u32> {
        self.by_inode.keys().copied()
    }
}

/// Tells whether a descriptor still is that socket.
pub fn still_has(owner: &Owner, socket: u32) -> bool {
    let target = fs::read_link(format!("/proc/{}/fd/{}", owner.pid, owner.fd));
    target.is_ok_and(|target| inode(&target.to_string_lossy()) == Some(socket))
}

/// Tells whether the owner's descriptor still is the same open file as a duplicate of it. Takes a
/// tenth of the time of [`still_has`].
pub fn still_shares(owner: &Owner, duplicate: BorrowedFd<'_>) -> bool {
    let own = std::process::id() as i32;
    let numbers = [duplicate.as_raw_fd() as u64, owner.fd as u64];
    os::kcmp::compare([own, owner.pid], os::kcmp::FILE, numbers).is_ok_and(|order| order == 0)
}

/// Reads the number of `socket:[NUMBER]`.
fn inode(target: &str) -> Option<u32> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn own_sockets_are_found_until_they_are_closed() {
        let (one, other) = UnixStream::pair().unwrap();
        let own = std::process::id() as i32;
        let owners = Owners::of(&[own]);
        let target = fs::read_link(format!("/proc/self/fd/{}", one.as_raw_fd())).unwrap();
        let number = inode(&target.to_string_lossy()).unwrap();
        let owner = owners.owner(number).unwrap();
        assert_eq!((owner.pid, owner.fd), (own, one.as_raw_fd()));
        let duplicate = one.try_clone().unwrap();
        assert!(still_has(owner, number));
        // A kernel may lack kcmp(2).
        let can_compare = os::kcmp::compare([own, own], os::kcmp::FILE, [0, 0]).is_ok();
        assert_eq!(still_shares(owner, duplicate.as_fd()), can_compare);
        drop((one, other));
        assert!(!still_has(owner, number) && !still_shares(owner, duplicate.as_fd()));
    }
}
