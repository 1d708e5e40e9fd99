//! What open files that are no files hold, asked through a duplicate, which changes nothing of it.

use crate::error::check;
use crate::{Error, Result};
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Gives a pipe's size, bytes. `end`: any end of it.
pub fn pipe_capacity(end: BorrowedFd<'_>) -> Result<u32> {
    let capacity = rustix::pipe::fcntl_getpipe_size(end);
    Ok(capacity.map_err(|e| Error::new("asking for a pipe's size", e))? as u32)
}

/// Gives an empty pipe this size, if the user may have that many, and this content. `writer`: an
/// end to write to; it does not block afterwards.
pub fn fill_pipe(writer: BorrowedFd<'_>, capacity: u32, content: &[u8]) -> Result<()> {
    let failed = |e: rustix::io::Errno| Error::new("filling a pipe", e);
    // A smaller one does too, if all fits.
    let _ = rustix::pipe::fcntl_setpipe_size(writer, capacity as usize);
    crate::fds::set_nonblocking(writer, true)?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(writer, rest).map_err(failed)?;
        rest = &rest[written..];
    }
    Ok(())
}

/// Gives a pipe's size, and what was written to it and not read. `reader`: an end to read from.
pub fn pipe_content(reader: BorrowedFd<'_>) -> Result<(u32, Vec<u8>)> {
    let failed = |e: rustix::io::Errno| Error::new("looking into a pipe", e);
    let capacity = rustix::pipe::fcntl_getpipe_size(reader).map_err(failed)?;
    let (copy, to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(failed)?;
    rustix::pipe::fcntl_setpipe_size(&to, capacity).map_err(failed)?;
    let content = match rustix::pipe::tee(reader, &to, capacity, SpliceFlags::NONBLOCK) {
        Ok(bytes) => {
            let mut content = vec![0; bytes];
            let mut got = 0;
            while got < bytes {
                got += rustix::io::read(&copy, &mut content[got..]).map_err(failed)?;
            }
            content
        }
        Err(rustix::io::Errno::AGAIN) => Vec::new(),
        Err(e) => return Err(failed(e)),
    };
    Ok((capacity as u32, content))
}

/// Tells what a timer (timerfd_create(2)) is set to: interval, and rest until it ends next, each
/// seconds and nanoseconds. What has ended until now is counted by then.
pub fn timer_setting(timer: BorrowedFd<'_>) -> Result<[u64; 4]> {
    let mut setting = [0u64; 4];
    // SAFETY: `setting` has the size of a `struct itimerspec`.
    let done = unsafe { libc::syscall(libc::SYS_timerfd_gettime, timer.as_raw_fd(), setting.as_mut_ptr()) };
    check(done, || "looking at a timer".into())?;
    Ok(setting)
}

/// Tells whether what the epoll instance `epoll` of process `pid` watches as `fd` is what the
/// process has open as `fd` now (kcmp(2)).
pub fn watches_open_file(pid: i32, epoll: i32, fd: i32) -> bool {
    const KCMP_EPOLL_TFD: i32 = 7;
    // `struct kcmp_epoll_slot`: epoll, watched, and which of several with that number.
    let slot = [epoll, fd, 0];
    // SAFETY: the kernel reads the slot.
    unsafe { libc::syscall(libc::SYS_kcmp, pid, pid, KCMP_EPOLL_TFD, fd, slot.as_ptr()) == 0 }
}

/// Seals of a file in memory (F_GET_SEALS); of what cannot be sealed none.
pub fn seals(file: impl AsFd) -> Result<u32> {
    // SAFETY: a number of a descriptor only.
    let found = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_GET_SEALS) };
    check(i64::from(found), || "asking for the seals of a file in memory".into()).map(|seals| seals as u32)
}

/// Tells where the next bytes are that are not a hole, from `at` on: start and end, both of whole
/// pages. `None`: there are none.
pub fn next_data(file: impl AsFd, at: u64) -> std::io::Result<Option<(u64, u64)>> {
    use rustix::fs::{SeekFrom, seek};
    match seek(&file, SeekFrom::Data(at)) {
        Ok(start) => Ok(Some((start, seek(&file, SeekFrom::Hole(start))?))),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Tells whether the file to which this path leads lies in memory (tmpfs).
pub fn lies_in_memory(path: &str) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC)
}

/// Tells whether a socket has a time limit (SO_RCVTIMEO, SO_SNDTIMEO); what is no socket has none.
pub fn has_time_limit(socket: BorrowedFd<'_>) -> bool {
    use rustix::net::sockopt::{Timeout, socket_timeout};
    [Timeout::Recv, Timeout::Send].into_iter().any(|which| matches!(socket_timeout(socket, which), Ok(Some(_))))
}

/// Tells whether the kernel says of a counter (eventfd(2)) that it is a semaphore (since Linux
/// 6.5).
pub fn tells_semaphores() -> bool {
    let told = |counter: OwnedFd| crate::process::fd_text(std::process::id() as i32, counter.as_raw_fd());
    crate::fds::event().and_then(told).is_ok_and(|text| text.contains("eventfd-semaphore"))
}
/// Tells whether System V shared memory of this number exists where process `pid` lives
/// (ipc_namespaces(7)). A thread of its own goes there and looks.
pub fn has_shared_memory(pid: i32, number: i32) -> Result<bool> {
    let failed = |e| Error::new("looking for shared memory", e);
    let place = std::fs::File::open(format!("/proc/{pid}/ns/ipc")).map_err(failed)?;
    let look = move || -> Result<bool> {
        // SAFETY: this thread alone changes its namespace, and ends soon.
        let entered = unsafe { libc::setns(place.as_raw_fd(), libc::CLONE_NEWIPC) };
        check(entered, || "entering a namespace of objects".into())?;
        // SAFETY: a structure that the kernel fills.
        let found = unsafe {
            let mut state: libc::shmid_ds = std::mem::zeroed();
            libc::shmctl(number, libc::IPC_STAT, &raw mut state)
        };
        let denied = || std::io::Error::last_os_error().raw_os_error() == Some(libc::EACCES);
        Ok(found >= 0 || denied())
    };
    let looking = std::thread::Builder::new().name("objects".into()).spawn(look).map_err(failed)?;
    looking.join().unwrap_or_else(|_| Err(failed(std::io::ErrorKind::Other.into())))
}
