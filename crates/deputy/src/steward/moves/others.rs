//! Whom a process has open files in common with.

use os::process::{self, FdInfo};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What other processes have open, by mount and inode.
pub struct Others(HashMap<(u64, u64), Vec<(i32, i32)>>);

/// Those of all but this one.
pub fn others_of(pid: i32) -> Others {
    Others::of(process::all().unwrap_or_default().into_iter().filter(|p| *p != pid).collect())
}

impl Others {
    /// Of these.
    pub fn of(processes: Vec<i32>) -> Others {
        let mut found: HashMap<_, Vec<_>> = HashMap::new();
        for other in processes {
            for fd in process::descriptors(other).unwrap_or_default() {
                if let Ok(info) = process::fd_info(other, fd) {
                    found.entry((info.mount_id, info.inode)).or_default().push((other, fd));
                }
            }
        }
        Others(found)
    }

    /// One of them has the same open file.
    pub fn have(&self, pid: i32, fd: i32, info: &FdInfo) -> bool {
        let candidates = self.0.get(&(info.mount_id, info.inode));
        candidates.is_some_and(|all| all.iter().any(|other| process::one_file((pid, fd), *other)))
    }

    /// Another process has the same open file, or any end of the same pipe, if that would be `made_anew` elsewhere.
    pub fn share(&self, pid: i32, fd: i32, info: &FdInfo, made_anew: bool) -> bool {
        let name = process::link(pid, &format!("fd/{fd}")).unwrap_or_default();
        let is_pipe = made_anew && name.as_os_str().as_bytes().starts_with(b"pipe:");
        // Whoever has it open, however, can map it.
        let is_memory = body::is_memory(&name);
        // The other end of a pipe may be with somebody who cannot be seen: outside the container that this home is.
        if is_pipe && !has_both_ends(pid, &name) {
            return true;
        }
        let Some(candidates) = self.0.get(&(info.mount_id, info.inode)) else { return false };
        is_pipe || is_memory || candidates.iter().any(|other| process::one_file((pid, fd), *other))
    }
}

fn has_both_ends(pid: i32, pipe: &Path) -> bool {
    let all = process::descriptors(pid).unwrap_or_default();
    let ends = all.into_iter().filter(|fd| process::link(pid, &format!("fd/{fd}")).is_ok_and(|name| name == pipe));
    let modes: Vec<i32> =
        ends.filter_map(|fd| process::fd_info(pid, fd).ok()).map(|i| i.flags & libc::O_ACCMODE).collect();
    modes.contains(&libc::O_RDONLY) && modes.contains(&libc::O_WRONLY)
}
