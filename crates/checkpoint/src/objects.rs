//! Kernel objects: counters, timers, epoll instances and pipes. Reading their state, and creating
//! them at the destination. The caller knows whether other processes have them, too.

use crate::error::{BodyError, stays};
use crate::memories;
use crate::watches::watched;
use image::{Image, Made, MemoryKind, Object, Objects, Pipe};
use os::areas::Shown;
use os::inject::{Batch, Inside};
use os::pidfd::PidFd;
use os::process::{self, FdInfo};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An open descriptor of a process, as the kernel describes it.
#[derive(Clone, Copy)]
pub struct OpenDescriptor<'a> {
    /// Number of the descriptor.
    pub fd: i32,
    /// Content of /proc/PID/fdinfo.
    pub info: &'a FdInfo,
    /// Target of the link in /proc/PID/fd.
    pub link: &'a Path,
}

/// The list of objects, which grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    objects: Objects,
    /// Inode numbers of the pipes,
    pipes: Vec<u64>,
    /// and the identities of the memories.
    memories: Vec<Shown>,
    removed: Vec<Shown>,
    /// Whether counters are semaphores, if the kernel does not tell.
    semaphores: Option<bool>,
    /// Whether the process runs.
    runs: bool,
}

impl Gathered {
    /// Creates the list for a process in a room. There no semaphore is ever created (eventfd(2)) on
    /// a kernel that does not tell semaphores from counters.
    pub fn in_room() -> Gathered {
        Gathered { semaphores: Some(false), ..Gathered::default() }
    }

    /// Creates the list for a running process, so the content of pipes is not read. Reading takes
    /// an end of the pipe, which would be one more while the process closes its own and asks
    /// whether others have one.
    pub fn running(self) -> Gathered {
        Gathered { runs: true, ..self }
    }

    /// Gives the list of objects.
    pub fn list(&self) -> &Objects {
        &self.objects
    }

    /// Gives the identities of the memories.
    pub fn memories(&self) -> &[Shown] {
        &self.memories
    }

    /// Notes that these memories are removed files, which no other process may have open.
    pub fn note_removed(&mut self, removed: &[Shown]) {
        self.removed.extend_from_slice(removed);
    }

    /// Gives the inode numbers of such memories.
    pub fn removed(&self) -> Vec<u64> {
        self.removed.iter().map(|(_, inode)| *inode).collect()
    }

    /// Gives the index of the memory to which this link of /proc/PID leads.
    pub fn memory(&mut self, pid: i32, link: &str, shown: Shown, kind: MemoryKind) -> Result<u32, BodyError> {
        if let Some(place) = self.memories.iter().position(|known| *known == shown) {
            return Ok(place as u32);
        }
        self.objects.memories.push(memories::describe(pid, link, kind)?);
        self.memories.push(shown);
        Ok(self.memories.len() as u32 - 1)
    }

    fn memory_file(&mut self, pid: i32, fd: i32, info: &FdInfo, kind: MemoryKind) -> Result<Object, BodyError> {
        // It has no name of its own by which it could be made open.
        if kind == MemoryKind::Anonymous {
            return stays(format!("descriptor {fd} is shared memory without a name, opened by its name in /proc"));
        }
        let link = format!("fd/{fd}");
        let memory = self.memory(pid, &link, memories::shown(pid, &link)?, kind)?;
        let is_open = |m: &Made| matches!(m.object, Object::Memory { memory: open, .. } if open == memory);
        if info.flags & libc::O_ACCMODE != libc::O_RDWR || self.objects.made.iter().any(is_open) {
            return stays(format!("descriptor {fd} is a file in memory that was opened again by its name in /proc"));
        }
        Ok(Object::Memory { memory, offset: info.offset })
    }

    /// Describes the object on which descriptor `fd` of process `pid` (held by `pidfd`) is open, as
    /// an index in the list; `None` if this kind cannot be created anew. The caller finds
    /// descriptors that share one open file.
    pub fn describe(&mut self, pid: i32, pidfd: &PidFd, open: OpenDescriptor<'_>) -> Result<Option<u32>, BodyError> {
        let OpenDescriptor { fd, info, link } = open;
        let name = link.to_string_lossy();
        let object = match name.strip_prefix("anon_inode:") {
            Some("[eventfd]") => counter(&process::fd_text(pid, fd)?, self.semaphores),
            Some("[timerfd]") => timer(pid, pidfd, fd)?,
            Some("[signalfd]") => signals(&process::fd_text(pid, fd)?),
            Some("[eventpoll]") => Some(Object::Watch(watched(pid, fd)?)),
            Some("[pidfd]") => oneself(pid, fd)?,
            Some(_) => None,
            None if memories::is_memory(link) => {
                let kind = memories::kind(link.as_os_str().as_bytes());
                kind.map(|kind| self.memory_file(pid, fd, info, kind)).transpose()?
            }
            None if name.starts_with("pipe:") => self.pipe_end(pid, pidfd, fd, info)?,
            None => None,
        };
        let flags = info.flags & !libc::O_CLOEXEC;
        Ok(object.map(|object| {
            self.objects.made.push(Made { object, flags });
            self.objects.made.len() as u32 - 1
        }))
    }

    /// Describes a descriptor that is open on memory: a memfd, or a removed file in memory.
    pub fn describe_memory(&mut self, pid: i32, open: OpenDescriptor<'_>) -> Result<u32, BodyError> {
        let OpenDescriptor { fd, info, link } = open;
        let Some(kind) = memories::kind(link.as_os_str().as_bytes()) else { return self.describe_removed(pid, open) };
        let object = self.memory_file(pid, fd, info, kind)?;
        self.objects.made.push(Made { object, flags: info.flags & !libc::O_CLOEXEC });
        Ok(self.objects.made.len() as u32 - 1)
    }

    /// Describes descriptor `fd`, as [`Gathered::describe`] does, that is open on a removed file in
    /// memory ([`memories::is_removed_memory`]).
    pub fn describe_removed(&mut self, pid: i32, open: OpenDescriptor<'_>) -> Result<u32, BodyError> {
        let OpenDescriptor { fd, info, link } = open;
        let kind = memories::kind_of_removed(link.as_os_str().as_bytes());
        let object = self.memory_file(pid, fd, info, kind)?;
        self.objects.made.push(Made { object, flags: info.flags & !libc::O_CLOEXEC });
        Ok(self.objects.made.len() as u32 - 1)
    }

    fn pipe_end(&mut self, pid: i32, pidfd: &PidFd, fd: i32, info: &FdInfo) -> Result<Option<Object>, BodyError> {
        if info.flags & libc::O_DIRECT != 0 {
            return stays(format!("descriptor {fd} is a pipe of packets (O_DIRECT)"));
        }
        let pipe = match self.pipes.iter().position(|inode| *inode == info.inode) {
            Some(known) => known,
            None => {
                let (capacity, content) = match reader(pid, info.inode)? {
                    _ if self.runs => (0, Vec::new()),
                    Some(reader) => os::objects::pipe_content(pidfd.get_fd(reader)?.as_fd())?,
                    // Bytes that no process can read any more do not move.
                    None => (os::objects::pipe_capacity(pidfd.get_fd(fd)?.as_fd())?, Vec::new()),
                };
                self.pipes.push(info.inode);
                self.objects.pipes.push(Pipe { capacity, content });
                self.pipes.len() - 1
            }
        };
        let writes = info.flags & libc::O_ACCMODE == libc::O_WRONLY;
        let end = Object::PipeEnd { pipe: pipe as u32, writes };
        if info.flags & libc::O_ACCMODE == libc::O_RDWR || self.objects.made.iter().any(|m| m.object == end) {
            return stays(format!("descriptor {fd} is a pipe that was opened again by its name in /proc"));
        }
        Ok(Some(end))
    }
}

/// Finds a descriptor that reads from the pipe.
fn reader(pid: i32, inode: u64) -> Result<Option<i32>, BodyError> {
    for fd in process::descriptors(pid)? {
        let name = process::link(pid, &format!("fd/{fd}"))?;
        if name.to_string_lossy() == format!("pipe:[{inode}]")
            && process::fd_info(pid, fd)?.flags & libc::O_ACCMODE == libc::O_RDONLY
        {
            return Ok(Some(fd));
        }
    }
    Ok(None)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Reads the state of an eventfd. `otherwise` tells whether it is a semaphore, if the kernel does
/// not (before 6.5).
fn counter(text: &str, otherwise: Option<bool>) -> Option<Object> {
    let count = u64::from_str_radix(field(text, "eventfd-count")?, 16).ok()?;
    let semaphore = field(text, "eventfd-semaphore").map(|told| told == "1").or(otherwise)?;
    Some(Object::Counter { count, semaphore })
}

fn timer(pid: i32, pidfd: &PidFd, fd: i32) -> Result<Option<Object>, BodyError> {
    const CANCEL_ON_SET: u32 = 2;
    // Reading the setting makes the kernel count expiries up to now, so this is first.
    let setting = os::objects::timer_setting(pidfd.get_fd(fd)?.as_fd())?;
    let text = process::fd_text(pid, fd)?;
    let said = || {
        let flags = field(&text, "settime flags")?;
        let flags = u32::from_str_radix(flags, 8).ok()?;
        Some((field(&text, "clockid")?.parse().ok()?, flags, field(&text, "ticks")?.parse().ok()?))
    };
    match said() {
        Some((_, flags, _)) if flags & CANCEL_ON_SET != 0 => {
            stays(format!("descriptor {fd} is a timer that reports changes of the clock (TFD_TIMER_CANCEL_ON_SET)"))
        }
        Some((clock, _, ticks)) => Ok(Some(Object::Timer { clock, setting, ticks })),
        None => Ok(None),
    }
}

fn signals(text: &str) -> Option<Object> {
    Some(Object::Signals { mask: u64::from_str_radix(field(text, "sigmask")?, 16).ok()? })
}

fn oneself(pid: i32, fd: i32) -> Result<Option<Object>, BodyError> {
    let text = process::fd_text(pid, fd)?;
    Ok((field(&text, "Pid").and_then(|p| p.parse().ok()) == Some(pid)).then_some(Object::Oneself))
}

/// Creates all objects in the process. Their descriptors are numbered from `from` on, or are the
/// lowest free ones. Epoll instances are still empty ([`crate::watch_again`]).
///
/// `theirs`: descriptors of memories that another process has already, by index; these are used.
pub fn make_objects(
    inside: &mut Inside,
    image: &Image,
    from: Option<i32>,
    theirs: &[Option<i32>],
) -> Result<Vec<i32>, BodyError> {
    let theirs = |object: &Object| match object {
        Object::Memory { memory, .. } => theirs.get(*memory as usize).copied().flatten(),
        _ => None,
    };
    let made = &image.objects.made;
    let mut batch = inside.batch();
    let pairs = batch.space(8 * image.objects.pipes.len());
    for (n, _) in (0u64..).zip(&image.objects.pipes) {
        batch.must("making a pipe", libc::SYS_pipe2, [pairs + 8 * n, libc::O_NONBLOCK as u64, 0, 0, 0, 0]);
    }
    let first = image.objects.pipes.len();
    for one in made {
        match theirs(&one.object) {
            Some(_) => batch.may(libc::SYS_getpid, [0; 6]),
            None => make(&mut batch, &one.object, image),
        };
    }
    let results = inside.run(&batch)?;
    let mut ends = Vec::new();
    for n in 0..first as u64 {
        let both = inside.memory().word(pairs + 8 * n)?;
        ends.push((both as i32, (both >> 32) as i32));
    }
    for (pipe, (_, writes)) in image.objects.pipes.iter().zip(&ends) {
        fill(inside, pipe, *writes)?;
    }
    let fds = made.iter().zip(&results[first..]).map(|(one, result)| match one.object {
        Object::PipeEnd { pipe, writes } => {
            let (reads_fd, writes_fd) = ends.get(pipe as usize).copied().unwrap_or((-1, -1));
            if writes { writes_fd } else { reads_fd }
        }
        _ => theirs(&one.object).unwrap_or(*result as i32),
    });
    let fds: Vec<i32> = fds.collect();
    let unused = ends.iter().flat_map(|(a, b)| [*a, *b]).filter(|fd| !fds.contains(fd)).collect::<Vec<_>>();
    set(inside, image, &fds, &unused)?;
    match from {
        Some(from) => {
            // Memories that another process has brought are out of the way.
            let is_new = |one: &Made| theirs(&one.object).is_none();
            let new: Vec<i32> = made.iter().zip(&fds).filter(|(one, _)| is_new(one)).map(|(_, fd)| *fd).collect();
            let mut moved = move_up(inside, &new, from)?.into_iter();
            let place = |one: &Made| theirs(&one.object).or_else(|| moved.next());
            Ok(made.iter().filter_map(place).collect())
        }
        None => Ok(fds),
    }
}

/// Adds one call for each object, so that the results have the objects' indices. Pipes exist
/// already.
fn make(batch: &mut Batch, object: &Object, image: &Image) -> usize {
    const GETPID: i64 = libc::SYS_getpid;
    match object {
        Object::Counter { semaphore, .. } => {
            let flags = if *semaphore { libc::EFD_SEMAPHORE as u64 } else { 0 };
            batch.must("making a counter", libc::SYS_eventfd2, [0, flags, 0, 0, 0, 0])
        }
        Object::Timer { clock, .. } => {
            batch.must("making a timer", libc::SYS_timerfd_create, [*clock as u64, 0, 0, 0, 0, 0])
        }
        Object::Signals { mask } => {
            let mask = batch.put(&mask.to_le_bytes());
            batch.must("making a descriptor for signals", libc::SYS_signalfd4, [u64::MAX, mask, 8, 0, 0, 0])
        }
        Object::Watch(_) => batch.must("making an epoll instance", libc::SYS_epoll_create1, [0; 6]),
        Object::Oneself => {
            batch.must("holding itself", libc::SYS_pidfd_open, [image.process.pid as u64, 0, 0, 0, 0, 0])
        }
        Object::Memory { memory, .. } => match image.objects.memories.get(*memory as usize).map(|m| &m.kind) {
            Some(MemoryKind::File { name, .. }) => memories::creating(batch, name),
            _ => batch.may(GETPID, [0; 6]),
        },
        Object::PipeEnd { .. } => batch.may(GETPID, [0; 6]),
    }
}

fn fill(inside: &mut Inside, pipe: &Pipe, writes: i32) -> Result<(), BodyError> {
    const CHUNK_BYTES: usize = 64 << 10;
    let mut batch = inside.batch();
    // If an ordinary user may not have that size, the pipe keeps its own, which must then suffice
    // for the content.
    batch.may(libc::SYS_fcntl, [writes as u64, libc::F_SETPIPE_SZ as u64, u64::from(pipe.capacity), 0, 0, 0]);
    inside.run(&batch)?;
    for chunk in pipe.content.chunks(CHUNK_BYTES) {
        let mut batch = inside.batch();
        let bytes = batch.put(chunk);
        batch.must("filling a pipe", libc::SYS_write, [writes as u64, bytes, chunk.len() as u64, 0, 0, 0]);
        if inside.run(&batch)?.first() != Some(&(chunk.len() as i64)) {
            return stays("the content of its pipe does not fit a pipe on the other node");
        }
    }
    Ok(())
}

/// Sets the state and flags of the objects.
fn set(inside: &mut Inside, image: &Image, fds: &[i32], unused: &[i32]) -> Result<(), BodyError> {
    const SET_TICKS: u64 = 0x4008_5400; // TFD_IOC_SET_TICKS (linux/timerfd.h)
    let mut batch = inside.batch();
    for (fd, made) in fds.iter().map(|fd| *fd as u64).zip(&image.objects.made) {
        match &made.object {
            Object::Counter { count, .. } if *count > 0 => {
                let count = batch.put(&count.to_le_bytes());
                batch.must("setting a counter", libc::SYS_write, [fd, count, 8, 0, 0, 0]);
            }
            Object::Timer { setting, ticks, .. } => {
                let bytes = batch.put(&setting.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>());
                batch.must("setting a timer", libc::SYS_timerfd_settime, [fd, 0, bytes, 0, 0, 0]);
                if *ticks > 0 {
                    let ticks = batch.put(&ticks.to_le_bytes());
                    batch.must("setting what a timer has counted", libc::SYS_ioctl, [fd, SET_TICKS, ticks, 0, 0, 0]);
                }
            }
            Object::Memory { offset, .. } => {
                batch.must("setting an offset", libc::SYS_lseek, [fd, *offset, libc::SEEK_SET as u64, 0, 0, 0]);
            }
            _ => {}
        }
        batch.must("setting flags", libc::SYS_fcntl, [fd, libc::F_SETFL as u64, made.flags as u64, 0, 0, 0]);
    }
    for fd in unused {
        batch.must("closing the other end of a pipe", libc::SYS_close, [*fd as u64, 0, 0, 0, 0, 0]);
    }
    inside.run(&batch)?;
    Ok(())
}

/// Moves descriptors of the process to numbers from `from` on; the new ones are close-on-exec.
pub fn move_up(inside: &mut Inside, fds: &[i32], from: i32) -> Result<Vec<i32>, BodyError> {
    let mut batch = inside.batch();
    for fd in fds {
        let args = [*fd as u64, libc::F_DUPFD_CLOEXEC as u64, from as u64, 0, 0, 0];
        batch.must("putting a descriptor out of the way", libc::SYS_fcntl, args);
    }
    for fd in fds {
        batch.must("closing a descriptor", libc::SYS_close, [*fd as u64, 0, 0, 0, 0, 0]);
    }
    let results = inside.run(&batch)?;
    Ok(results.into_iter().take(fds.len()).map(|fd| fd as i32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_pipe_of_a_process_that_runs_is_left_alone() {
        let (reader, writer) = std::io::pipe().unwrap();
        (&writer).write_all(b"abc").unwrap();
        let (pid, pidfd) = (std::process::id() as i32, PidFd::open(std::process::id() as i32).unwrap());
        let seen = |gathered: Gathered| {
            let (mut gathered, fd) = (gathered, reader.as_raw_fd());
            let (info, link) = (process::fd_info(pid, fd).unwrap(), process::link(pid, &format!("fd/{fd}")).unwrap());
            gathered.describe(pid, &pidfd, OpenDescriptor { fd, info: &info, link: &link }).unwrap().unwrap();
            gathered.list().pipes[0].content.clone()
        };
        assert_eq!(seen(Gathered::default()), b"abc");
        assert_eq!(seen(Gathered::default().running()), b"");
    }

    /// Failed before: it was not refused, and its move failed with "setting an offset: Bad file
    /// descriptor".
    #[test]
    fn open_memory_without_a_name_is_refused() {
        let (pid, pidfd) = (std::process::id() as i32, PidFd::open(std::process::id() as i32).unwrap());
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, which stays.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, shared, -1, 0) } as usize;
        let path = format!("/proc/self/map_files/{start:x}-{:x}", start + 4096);
        // It takes CAP_CHECKPOINT_RESTORE.
        let Ok(file) = std::fs::File::options().read(true).write(true).open(path) else {
            return skip::test("nothing can be opened below /proc/self/map_files");
        };
        let fd = file.as_raw_fd();
        let (info, link) = (process::fd_info(pid, fd).unwrap(), process::link(pid, &format!("fd/{fd}")).unwrap());
        let described = Gathered::default().describe(pid, &pidfd, OpenDescriptor { fd, info: &info, link: &link });
        assert!(
            matches!(&described, Err(BodyError::NotMigratable(why)) if why.contains("without a name")),
            "{described:?}"
        );
    }

    #[test]
    fn lines_of_the_kernel_are_parsed() {
        let text = "pos:\t0\nflags:\t02000002\neventfd-count:               1f\neventfd-id: 5\neventfd-semaphore: 1\n";
        assert_eq!(counter(text, Some(false)), Some(Object::Counter { count: 31, semaphore: true }));
        assert_eq!(counter("eventfd-count: 1", None), None);
        assert_eq!(counter("eventfd-count: 1", Some(false)), Some(Object::Counter { count: 1, semaphore: false }));
        assert_eq!(signals("sigmask:\t0000000000000a00"), Some(Object::Signals { mask: 0xa00 }));
    }
}
