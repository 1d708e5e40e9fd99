//! Processes held by descriptor (pidfd_open(2), pidfd_getfd(2)).

use crate::Result;
use crate::error::check;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl From<OwnedFd> for PidFd {
    /// Wraps a descriptor that clone3(2) gave.
    fn from(fd: OwnedFd) -> PidFd {
        PidFd(fd)
    }
}

impl PidFd {
    /// Holds process `pid` of the caller's namespace.
    pub fn open(pid: i32) -> Result<PidFd> {
        // SAFETY: returns a new descriptor.
        let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) }, || format!("holding process {pid}"))?;
        // SAFETY: the kernel just made it for us.
        Ok(PidFd(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// Duplicates descriptor `fd` of the process, close-on-exec here.
    pub fn get_fd(&self, fd: i32) -> Result<OwnedFd> {
        // SAFETY: returns a new descriptor.
        let copy = check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, self.0.as_raw_fd(), fd, 0) }, || {
            format!("duplicating descriptor {fd} of a process")
        })?;
        // SAFETY: the kernel just made it for us.
        Ok(unsafe { OwnedFd::from_raw_fd(copy as i32) })
    }

    /// Sends a signal as kill(2) does; 0 only asks whether the process is there.
    pub fn kill(&self, signal: i32) -> Result<()> {
        // SAFETY: no memory is passed.
        check(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.0.as_raw_fd(), signal, 0usize, 0) }, || {
            format!("sending signal {signal}")
        })
        .map(drop)
    }

    /// Tells whether the process has ended, reaped or not.
    pub fn has_ended(&self) -> bool {
        let mut polled = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        unsafe { libc::poll(&raw mut polled, 1, 0) > 0 }
    }

    /// For poll: readable when the process has ended.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }
}
