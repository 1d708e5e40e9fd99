//! Small things about descriptors.

use crate::Result;
use crate::error::check;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Makes a counter that wakes a polling thread (eventfd(2)), non-blocking.
pub fn event() -> Result<OwnedFd> {
    // SAFETY: returns a new descriptor.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }, || "making an eventfd".into())?;
    // SAFETY: the kernel just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Wakes whoever polls `event`.
pub fn wake(event: BorrowedFd<'_>) {
    // A full counter is as good as a written one.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

/// Takes the wake-ups that came.
pub fn drain(event: BorrowedFd<'_>) {
    let _ = rustix::io::read(event, &mut [0; 8]);
}

/// Close-on-exec or not.
pub fn set_close_on_exec(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    let flags = if on { libc::FD_CLOEXEC } else { 0 };
    // SAFETY: no memory is passed.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, flags) }, || "setting close-on-exec".into()).map(drop)
}

/// Opens a descriptor that becomes readable when SIGCHLD comes; the signal is blocked in the
/// calling thread (and those that it makes later).
pub fn child_signals() -> Result<OwnedFd> {
    // SAFETY: the set lives here; signalfd returns a new descriptor.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        let fd =
            check(libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK), || "making a signalfd".into())?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Closes all descriptors of this process but 0, 1, 2 and those named.
pub fn close_others(kept: &[i32]) {
    let mut kept = kept.to_vec();
    kept.extend([0, 1, 2]);
    kept.sort_unstable();
    let mut from = 0;
    for number in kept.into_iter().chain([i32::MAX]) {
        if number > from {
            // SAFETY: the caller owns what this process holds, and names what it goes on using.
            unsafe { libc::syscall(libc::SYS_close_range, from, number - 1, 0) };
        }
        from = number.saturating_add(1);
    }
}

/// Duplicates a descriptor, close-on-exec, under the lowest free number from `number` on.
pub fn at_or_above(fd: BorrowedFd<'_>, number: i32) -> Result<OwnedFd> {
    // SAFETY: returns a new descriptor.
    let copy = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, number) }, || {
        format!("putting a descriptor at {number} or above")
    })?;
    // SAFETY: the kernel just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Takes a descriptor whose number this program was started with. The new descriptor is
/// close-on-exec, and out of the way of numbers that programs use.
pub fn take_inherited(number: i32) -> Result<OwnedFd> {
    // SAFETY: returns a new descriptor.
    let copy =
        check(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) }, || format!("taking descriptor {number}"))?;
    // SAFETY: the starter of this program has given it, and nothing else here uses it; then, the
    // kernel just made the copy for us.
    unsafe {
        libc::close(number);
        Ok(OwnedFd::from_raw_fd(copy))
    }
}

/// Writes to a descriptor whose number this program was started with, and closes it.
pub fn write_and_close(number: i32, bytes: &[u8]) -> Result<()> {
    use std::io::Write as _;
    let file = std::fs::File::from(take_inherited(number)?);
    (&file).write_all(bytes).map_err(|e| crate::Error::new(format!("writing to descriptor {number}"), e))
}

/// All that poll(2) tells of.
pub const POLLED: u16 = (libc::POLLIN | libc::POLLPRI | libc::POLLOUT | libc::POLLRDHUP) as u16
    | (libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLWRNORM | libc::POLLWRBAND) as u16;

/// Tells what a descriptor is ready for now: poll(2) bits. An open file that somebody polls so,
/// wakes its watchers when it becomes ready for more.
pub fn ready(fd: BorrowedFd<'_>) -> u16 {
    let mut polled = libc::pollfd { fd: fd.as_raw_fd(), events: POLLED as i16, revents: 0 };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&mut polled, 1, 0) };
    polled.revents as u16
}

/// Tells whether a descriptor is an end of a pipe, or a FIFO.
pub fn is_pipe(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO)
}

/// Sets or clears O_NONBLOCK of an open file.
pub fn set_nonblocking(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    set_flags(fd, libc::O_NONBLOCK, if on { libc::O_NONBLOCK } else { 0 })
}

/// Sets those of an open file's flags that `which` names as `to` has them.
pub fn set_flags(fd: BorrowedFd<'_>, which: i32, to: i32) -> Result<()> {
    // SAFETY: numbers only.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) }, || "reading a file's flags".into())?;
    let flags = flags & !which | to & which;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) }, || "setting a file's flags".into()).map(drop)
}

/// Where the handler of SIGINT writes to.
static INTERRUPTS: AtomicI32 = AtomicI32::new(-1);

/// Opens a descriptor that becomes readable at the first SIGINT; the next one has its usual effect.
/// A program that ignores SIGINT goes on doing so.
pub fn interrupts() -> Result<OwnedFd> {
    extern "C" fn note(_: libc::c_int) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: write(2) may be called by handlers (signal-safety(7)); a descriptor that is
        // closed is an error that nobody misses.
        unsafe { libc::write(INTERRUPTS.load(Ordering::Relaxed), one.as_ptr().cast(), one.len()) };
    }
    let event = event()?;
    INTERRUPTS.store(event.as_raw_fd(), Ordering::Relaxed);
    // SAFETY: all zero is a valid sigaction, and the handler lives as long as the program.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        check(libc::sigaction(libc::SIGINT, std::ptr::null(), &mut action), || "looking at SIGINT".into())?;
        if action.sa_sigaction != libc::SIG_IGN {
            action.sa_sigaction = note as *const () as usize;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
            check(libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut()), || "handling SIGINT".into())?;
        }
    }
    Ok(event)
}
