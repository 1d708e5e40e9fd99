//! Which files processes have open. A machine's processes may have tens of thousands of
//! descriptors: one call for each must do.

mod btf;
mod kernel;

use crate::process::{self, ProcessFd};
use crate::{Error, Result};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatxFlags, open, statx};
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};

/// Which file a descriptor leads to; the same for whoever has it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileId {
    /// An inode of a device.
    Inode {
        /// As of st_dev, major and minor number.
        device: (u32, u32),
        /// As of st_ino.
        number: u64,
    },
    /// A file at which only its user may look (FUSE without allow_other): as /proc/PID/fdinfo shows
    /// it.
    Shown {
        /// Number of the mount.
        mount: u64,
        /// Number of the inode; 0 on kernels that do not say it.
        number: u64,
    },
}

/// Gives the file that a descriptor leads to.
pub fn file_of(pid: i32, fd: i32) -> Result<FileId> {
    let directory = directory(pid)?;
    let name = std::ffi::CString::new(fd.to_string()).unwrap_or_default();
    file_at(pid, directory.as_fd(), &name, fd)
}

/// Gives the files of all descriptors that a process has; those that it closes meanwhile are left
/// out.
pub fn files_of(pid: i32) -> Result<Vec<(i32, FileId)>> {
    let directory = directory(pid)?;
    let entries = Dir::read_from(&directory).map_err(|e| failed(pid, e))?;
    let file = |name: &CStr| {
        let fd = name.to_str().ok()?.parse().ok()?;
        Some((fd, file_at(pid, directory.as_fd(), name, fd).ok()?))
    };
    Ok(entries.flatten().filter_map(|entry| file(entry.file_name())).collect())
}

/// Descriptors that are looked at one by one, before the kernel is asked for a list of all.
const LOOKS_MAX: usize = 2000;

/// The descriptors that are open on files, by file.
pub type Holders = HashMap<FileId, Vec<ProcessFd>>;

/// Finds which of these `processes` have some of the files open that process `pid` is asked about;
/// at least one, and all that have an open file in common with it. Likewise `sockets`, which the
/// process need not have. A machine's processes may have hundreds of thousands of descriptors:
/// beyond some the kernel is asked for its list, where it gives one.
pub fn holders(pid: i32, files: &HashSet<FileId>, processes: &[i32], sockets: &HashSet<FileId>) -> Holders {
    let (mut found, mut looks) = (Holders::new(), 0);
    for (at, process) in processes.iter().enumerate() {
        if looks > LOOKS_MAX
            && let Some(rest) = listed(pid, files, &processes[at..], sockets)
        {
            rest.into_iter().for_each(|(file, held)| found.entry(file).or_default().extend(held));
            return found;
        }
        let all = files_of(*process).unwrap_or_default();
        looks += all.len();
        for (fd, file) in all.into_iter().filter(|(_, file)| files.contains(file) || sockets.contains(file)) {
            found.entry(file).or_default().push(ProcessFd { pid: *process, fd });
        }
    }
    found
}

/// The same by the kernel's list; `None` if it gives none, or does not show one of the files with
/// the process.
fn listed(pid: i32, files: &HashSet<FileId>, processes: &[i32], sockets: &HashSet<FileId>) -> Option<Holders> {
    let before: HashSet<(i32, FileId)> = files_of(pid).ok()?.into_iter().collect();
    let list = kernel::all()?;
    // What had this number before and after was this file when the list was made.
    let stayed: HashMap<i32, FileId> = files_of(pid).ok()?.into_iter().filter(|held| before.contains(held)).collect();
    let own: Vec<&kernel::Held> = list.iter().filter(|held| held.pid == pid).collect();
    let named = own.iter().filter_map(|held| Some((held.inode, *stayed.get(&held.fd)?)));
    let inodes: HashMap<u64, FileId> = named.filter(|(_, file)| files.contains(file)).collect();
    if inodes.values().collect::<HashSet<_>>().len() < files.len() {
        return None;
    }
    let numbers: HashSet<u64> = sockets.iter().filter_map(|socket| socket.number()).collect();
    let among: HashSet<i32> = processes.iter().copied().collect();
    let mut found = Holders::new();
    for held in list.iter().filter(|held| inodes.contains_key(&held.inode) || numbers.contains(&held.number)) {
        if !among.contains(&held.pid) {
            continue;
        }
        let Some(file) = inodes.get(&held.inode).copied().or_else(|| held.among(sockets)) else { continue };
        let holders = found.entry(file).or_default();
        // Of all who have the file open otherwise one will do: a hundred thousand may have
        // /dev/null.
        if holders.is_empty() || own.iter().any(|own| own.file == held.file) {
            holders.push(ProcessFd { pid: held.pid, fd: held.fd });
        }
    }
    Some(found)
}

impl FileId {
    fn number(self) -> Option<u64> {
        match self {
            FileId::Inode { number, .. } => Some(number),
            FileId::Shown { .. } => None,
        }
    }
}

impl kernel::Held {
    /// Tells which of these files it is; its number alone may be that of another file system's.
    fn among(&self, files: &HashSet<FileId>) -> Option<FileId> {
        file_of(self.pid, self.fd).ok().filter(|file| files.contains(file))
    }
}

fn directory(pid: i32) -> Result<std::os::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    open(format!("/proc/{pid}/fd"), flags, Mode::empty()).map_err(|e| failed(pid, e))
}

fn failed(pid: i32, e: rustix::io::Errno) -> Error {
    Error::new(format!("looking at the descriptors of process {pid}"), e)
}

/// What is known of it will do: nobody is asked, neither another machine nor another process.
fn file_at(pid: i32, directory: BorrowedFd<'_>, name: &CStr, fd: i32) -> Result<FileId> {
    let known = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    match statx(directory, name, known, StatxFlags::INO) {
        Ok(seen) => Ok(FileId::Inode { device: (seen.stx_dev_major, seen.stx_dev_minor), number: seen.stx_ino }),
        Err(rustix::io::Errno::NOENT) => Err(failed(pid, rustix::io::Errno::NOENT)),
        Err(_) => process::fd_info(pid, fd).map(|i| FileId::Shown { mount: i.mount_id, number: i.inode }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn one_file_is_one_through_whatever_descriptor() {
        let me = std::process::id() as i32;
        let (file, again) =
            (std::fs::File::open("/proc/self/exe").unwrap(), std::fs::File::open("/proc/self/exe").unwrap());
        let (read, write) = rustix::pipe::pipe().unwrap();
        let (other, _end) = rustix::pipe::pipe().unwrap();
        let of = |fd: &dyn AsRawFd| file_of(me, fd.as_raw_fd()).unwrap();
        assert_eq!(of(&file), of(&again));
        assert_eq!(of(&read), of(&write));
        assert_ne!(of(&read), of(&other));
        let all = files_of(me).unwrap();
        assert!(all.contains(&(read.as_raw_fd(), of(&write))), "{all:?}");
    }

    /// Processes that have many descriptors, among which is one of this process.
    struct Crowd(Vec<std::process::Child>);

    impl Drop for Crowd {
        fn drop(&mut self) {
            for child in &mut self.0 {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
    }

    #[test]
    fn the_kernels_list_says_what_a_look_at_each_does() {
        use std::io::Read;
        use std::process::{Command, Stdio};
        let me = std::process::id() as i32;
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let own = std::fs::File::open("/proc/self/exe").unwrap();
        let many = "n=10; while [ $n -lt 900 ]; do eval \"exec $n< /dev/null\"; n=$((n+1)); done; echo; sleep 1000";
        let mut crowd = Crowd(Vec::new());
        for _ in 0..4 {
            let mut command = Command::new("bash");
            command.args(["-c", many]).stdin(read.try_clone().unwrap()).stdout(Stdio::piped());
            crowd.0.push(command.spawn().unwrap());
        }
        for child in &mut crowd.0 {
            child.stdout.as_mut().unwrap().read_exact(&mut [0; 1]).unwrap();
        }
        let processes: Vec<i32> = crowd.0.iter().map(|child| child.id() as i32).collect();
        let of = |fd: &dyn AsRawFd| file_of(me, fd.as_raw_fd()).unwrap();
        let files = HashSet::from([of(&read), of(&own)]);
        let mut expected: Vec<ProcessFd> = processes.iter().map(|pid| ProcessFd { pid: *pid, fd: 0 }).collect();
        expected.sort_unstable_by_key(|held| held.pid);
        let sorted = |mut found: Holders| {
            let mut held = found.remove(&of(&write)).unwrap();
            held.sort_unstable_by_key(|held| held.pid);
            assert!(found.is_empty(), "{found:?}");
            held
        };
        assert_eq!(sorted(holders(me, &files, &processes, &HashSet::new())), expected);
        match listed(me, &files, &processes, &HashSet::new()) {
            Some(found) => assert_eq!(sorted(found), expected),
            None => println!("skipped: this kernel lists no open files to this process"),
        }
        // A socket that this process does not have is found by its number.
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        let sockets = HashSet::from([of(&there)]);
        let mut sleep = Command::new("sleep");
        crowd.0.push(sleep.arg("1000").stdin(std::os::fd::OwnedFd::from(there)).spawn().unwrap());
        let last = crowd.0.last().unwrap().id() as i32;
        if let Some(found) = listed(me, &files, &[last], &sockets) {
            // The new program closes what it did not inherit after its parent goes on (fs/exec.c):
            // a look may come before.
            assert_eq!(found.get(sockets.iter().next().unwrap()), Some(&vec![ProcessFd { pid: last, fd: 0 }]));
        }
        drop(here);
    }

    #[test]
    fn a_number_that_is_closed_is_an_error() {
        assert!(file_of(std::process::id() as i32, 1 << 20).is_err());
        assert!(files_of(i32::MAX).is_err());
    }
}
