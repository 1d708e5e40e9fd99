//! Open files of a stopped process, as a dump holds them.
//!
//! Descriptors 0 to 2, and all that show the same open file or the same terminal, become those of
//! the undumper. Regular files, directories and devices that are the same everywhere go by name and
//! position. The undumper makes anew what the process has for itself: pipes with both ends in it,
//! eventfd, timerfd, signalfd, epoll, memfd. The dumper refuses anything else by its name, or
//! leaves it out.

use crate::capture::DumpWish;
use crate::describe::through_root;
use crate::error::DumpFailed;
use crate::files::is_terminal;
use checkpoint::{BodyError, Files, Gathered, OpenDescriptor, OpenFiles};
use image::{Descriptor, File, Opened};
use os::pidfd::PidFd;
use os::process::{self, FdInfo, ProcessFd};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Descriptors as the dump holds them.
pub struct Found {
    /// The descriptors that the dump holds, ascending.
    pub descriptors: Vec<Descriptor>,
    /// Those that are left out, in words.
    pub left_out: Vec<String>,
}

/// The process whose descriptors are described.
struct Of<'a> {
    pid: i32,
    pidfd: PidFd,
    wish: DumpWish,
    /// All descriptors of the process.
    all: &'a [(i32, FdInfo)],
}

/// Describes the descriptors of the stopped process `pid`.
pub fn describe(pid: i32, wish: DumpWish, files: &mut Files, gathered: &mut Gathered) -> Result<Found, DumpFailed> {
    let look = |fd| Ok((fd, process::fd_info(pid, fd)?));
    let all = process::descriptors(pid)?.into_iter().map(look).collect::<Result<Vec<_>, DumpFailed>>()?;
    let of = Of { pid, pidfd: PidFd::open(pid)?, wish, all: &all };
    let mut open_files = OpenFiles::of(pid);
    let mut found = Found { descriptors: Vec::new(), left_out: Vec::new() };
    for (fd, info) in &all {
        if of.is_the_dumps(*fd) {
            continue;
        }
        let opened = match of.undumpers(*fd) {
            Some(standard) => Ok(Opened::Home(standard)),
            None => open_files.opened(*fd, info, || of.decide(*fd, info, files, gathered)),
        };
        let close_on_exec = info.flags & libc::O_CLOEXEC != 0;
        match opened {
            Ok(opened) => found.descriptors.push(Descriptor { fd: *fd, close_on_exec, opened }),
            Err(BodyError::NotMigratable(why)) if wish.ignore_files => found.left_out.push(why),
            Err(BodyError::NotMigratable(why)) => {
                return Err(DumpFailed::Refused(format!("{why} (--ignore-files leaves it out)")));
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(found)
}

fn refuse<T>(fd: i32, what: impl std::fmt::Display) -> Result<T, BodyError> {
    Err(BodyError::NotMigratable(format!("descriptor {fd} is {what}")))
}

impl Of<'_> {
    /// Tells whether the dump goes to this open file. The process may have given it to the dumper.
    fn is_the_dumps(&self, fd: i32) -> bool {
        let own = ProcessFd { pid: std::process::id() as i32, fd: 1 };
        fd > 2 && process::one_file(own, ProcessFd { pid: self.pid, fd })
    }

    /// Tells which of the undumper's descriptors this one becomes.
    fn undumpers(&self, fd: i32) -> Option<i32> {
        const STANDARD: std::ops::RangeInclusive<i32> = 0..=2;
        if STANDARD.contains(&fd) {
            return Some(fd);
        }
        let terminal = |fd: i32| {
            let metadata = fs::metadata(format!("/proc/{}/fd/{fd}", self.pid)).ok()?;
            is_terminal(&metadata).then(|| metadata.rdev())
        };
        let own = terminal(fd);
        let is_one =
            |standard: &i32| process::same_file(self.pid, *standard, fd) || own.is_some() && terminal(*standard) == own;
        self.all.iter().map(|(fd, _)| *fd).filter(|fd| STANDARD.contains(fd)).find(is_one)
    }

    fn decide(&self, fd: i32, info: &FdInfo, files: &mut Files, gathered: &mut Gathered) -> Result<Opened, BodyError> {
        let link = process::link(self.pid, &format!("fd/{fd}"))?;
        let name = link.to_string_lossy().into_owned();
        let open = OpenDescriptor { fd, info, link: &link };
        if info.flags & libc::O_ASYNC != 0 {
            return refuse(fd, format!("{name}, which sends signals when it is ready (O_ASYNC)"));
        }
        if name.starts_with("socket:") {
            return refuse(fd, "a socket");
        }
        if name.starts_with("pipe:") && !self.has_both_ends(info) {
            return refuse(fd, format!("an end of a pipe ({name}) whose other end another process has"));
        }
        if name.starts_with("anon_inode:") || name.starts_with("pipe:") || checkpoint::is_memory(&link) {
            let object = gathered.describe(self.pid, &self.pidfd, open)?;
            return object
                .map_or_else(|| refuse(fd, format!("{name}, which no dump can hold")), |o| Ok(Opened::Made(o)));
        }
        if checkpoint::is_removed_memory(self.pid, fd, &link) {
            return Ok(Opened::Made(gathered.describe_removed(self.pid, open)?));
        }
        let offset = info.offset;
        Ok(Opened::File { file: files.own(self.file(open)?), offset })
    }

    /// A file that is opened by its name.
    fn file(&self, open: OpenDescriptor<'_>) -> Result<File, BodyError> {
        let OpenDescriptor { fd, info, link } = open;
        let failed = |e| os::Error::new(format!("looking at descriptor {fd}"), e);
        let metadata = fs::metadata(format!("/proc/{}/fd/{fd}", self.pid)).map_err(failed)?;
        if is_terminal(&metadata) {
            let terminal = File { path: b"/dev/tty".to_vec(), inode: 0, flags: 0, removed: false };
            return Ok(File { flags: info.flags & (libc::O_ACCMODE | libc::O_NONBLOCK), ..terminal });
        }
        let everywhere = checkpoint::is_there_everywhere(&metadata);
        if !(metadata.is_file() || metadata.is_dir() || everywhere || info.flags & libc::O_PATH != 0) {
            return refuse(fd, format!("{}, a device, a FIFO or a socket", link.display()));
        }
        let named = fs::symlink_metadata(through_root(self.pid, link));
        if !everywhere && !named.is_ok_and(|named| named.ino() == metadata.ino()) {
            return refuse(fd, format!("{}, a file that has no name any more, or another one", link.display()));
        }
        if info.locked && !self.wish.ignore_locks {
            let words =
                format!("{}, on which the process holds a lock (--ignore-locks dumps it without)", link.display());
            return refuse(fd, words);
        }
        checkpoint::open_file(fd, &FdInfo { locked: false, ..*info }, link, everywhere)
    }

    /// Tells whether the process has both ends of a pipe, neither as its standard input or output.
    fn has_both_ends(&self, pipe: &FdInfo) -> bool {
        let ends = self.all.iter().filter(|(_, i)| (i.mount_id, i.inode) == (pipe.mount_id, pipe.inode));
        let ends: Vec<_> = ends.collect();
        let has = |mode| ends.iter().any(|(_, info)| info.flags & libc::O_ACCMODE == mode);
        has(libc::O_RDONLY) && has(libc::O_WRONLY) && ends.iter().all(|(fd, _)| self.undumpers(*fd).is_none())
    }
}
