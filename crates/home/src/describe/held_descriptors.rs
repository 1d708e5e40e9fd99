//! The descriptors of a process: which of them go along, and which stay behind a stand-in.

use crate::describe::barred;
use crate::describe::descriptor_kind::{Kind, is_file, kind, of_one_file};
use crate::describe::memory_sharing::MemorySharing;
use crate::describe::others::Company;
use checkpoint::{BodyError, Files, Gathered, OpenFiles};
use image::{Descriptor, File, Objects, Opened};
use os::pidfd::PidFd;
use os::process::{self, FdInfo};

/// The descriptors of a process, and what they stand for.
pub struct Described {
    /// The descriptors, as the kernel described them.
    pub seen: Vec<(i32, FdInfo)>,
    /// The descriptors, as an image has them.
    pub descriptors: Vec<Descriptor>,
    /// Objects that some of them stand for.
    pub objects: Objects,
}

/// A process whose descriptors are looked at.
pub struct Holding<'a> {
    /// PID of the process.
    pub pid: i32,
    /// The process may open and close descriptors meanwhile.
    pub runs: bool,
    /// The memory that it may share.
    pub sharing: &'a MemorySharing,
    /// The other processes that have the same files.
    pub company: &'a Company<'a>,
}

/// Describes all descriptors of a process.
pub fn descriptors(holding: &Holding<'_>, files: &mut Files, gathered: &mut Gathered) -> Result<Described, BodyError> {
    let Holding { pid, runs, sharing, company } = *holding;
    let pidfd = PidFd::open(pid)?;
    let mut found = Vec::<Descriptor>::new();
    let mut seen = Vec::new();
    let mut open_files = OpenFiles::of(pid);
    let look = |fd| Ok((fd, process::fd_info(pid, fd)?));
    let all = process::descriptors(pid)?.into_iter().map(look).collect::<Result<Vec<_>, BodyError>>()?;
    let locked: Vec<_> = all.iter().filter(|(_, i)| i.locked).map(|(_, i)| (i.mount_id, i.inode)).collect();
    let is_locked = |info: &FdInfo| info.locked || locked.contains(&(info.mount_id, info.inode));
    let kind = |fd, info: &FdInfo| match is_locked(info) && is_file(pid, fd) {
        _ if sharing.takes(pid, fd) => Ok(Kind::Memory),
        // A process does not lock itself out, through whatever descriptor; and its locks are the
        // deputy's to keep.
        true => Ok(Kind::AtHome),
        false => kind(pid, fd, info),
    };
    let look = |(fd, info)| {
        let (info, kind) = if runs { of_one_file(pid, fd, kind)? } else { (info, kind(fd, &info)?) };
        Ok::<_, BodyError>((fd, info, kind))
    };
    let all = all.into_iter().map(look).collect::<Result<Vec<_>, _>>()?;
    for (fd, info, kind) in without_signalling(without_barred(pid, all)?) {
        let opened = open_files.opened(fd, &info, || {
            match kind {
                Kind::AtHome => Ok(Opened::Home(fd)),
                // Files that others have too stay where the others are.
                Kind::File(_) | Kind::Object if company.share(fd, &info, matches!(kind, Kind::Object)) => {
                    kind.shared(pid, fd)
                }
                Kind::File(file) | Kind::Place(file) => Ok(Opened::File { file: files.own(file), offset: info.offset }),
                Kind::Memory => {
                    let name = process::link(pid, &format!("fd/{fd}"))?;
                    let open = checkpoint::OpenDescriptor { fd, info: &info, link: &name };
                    gathered.describe_memory(pid, open).map(Opened::Made)
                }
                Kind::Object => {
                    let name = process::link(pid, &format!("fd/{fd}"))?;
                    let open = checkpoint::OpenDescriptor { fd, info: &info, link: &name };
                    let made = gathered.describe(pid, &pidfd, open)?;
                    Ok(made.map_or(Opened::Home(fd), Opened::Made))
                }
            }
        });
        let opened = opened.map_err(|e| if runs { e.seen_running() } else { e })?;
        seen.push((fd, info));
        found.push(Descriptor { fd, close_on_exec: info.flags & libc::O_CLOEXEC != 0, opened });
    }
    Ok(Described { seen, descriptors: found, objects: gathered.list().clone() })
}

type Looked = Vec<(i32, FdInfo, Kind)>;

/// Files that the process may not open again stay.
fn without_barred(pid: i32, all: Looked) -> Result<Looked, BodyError> {
    let files: Vec<&File> = all.iter().filter_map(|(_, _, kind)| kind.file()).collect();
    let mut barred = barred::barred(pid, &files)?.into_iter();
    let stays = |(fd, info, kind): (i32, FdInfo, Kind)| {
        let is_barred = kind.file().is_some() && barred.next() == Some(true);
        (fd, info, if is_barred { Kind::AtHome } else { kind })
    };
    Ok(all.into_iter().map(stays).collect())
}

/// Whom a pipe tells that it is ready, and by which signal, is home's to know (F_SETOWN, F_SETSIG):
/// both its ends stay.
fn without_signalling(all: Looked) -> Looked {
    let signals =
        |(_, info, kind): &&(i32, FdInfo, Kind)| matches!(kind, Kind::Object) && info.flags & libc::O_ASYNC != 0;
    let signalling: Vec<(u64, u64)> =
        all.iter().filter(signals).map(|(_, info, _)| (info.mount_id, info.inode)).collect();
    let stays = |(fd, info, kind): (i32, FdInfo, Kind)| {
        let is_one = matches!(kind, Kind::Object) && signalling.contains(&(info.mount_id, info.inode));
        (fd, info, if is_one { Kind::AtHome } else { kind })
    };
    all.into_iter().map(stays).collect()
}
