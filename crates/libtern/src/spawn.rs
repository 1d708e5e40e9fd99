//! Children that do something which may fail: then there is no child.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::errors::{Errno, Outcome};

/// A child that has not told yet whether it succeeded.
pub struct Coming {
    pid: i32,
    report: OwnedFd,
}

/// One of the two processes after a fork.
pub enum Forked {
    /// The child, and where it tells of its failure. Success is told by closing it.
    Child(Report),
    /// The parent, and its child that is coming.
    Parent(Coming),
}

/// Where a child tells of its failure; closes at exec.
pub struct Report(OwnedFd);

/// Makes a child.
pub fn fork() -> Outcome<Forked> {
    let (report, to) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: the C library's fork(2): its handlers keep the child's memory usable.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => Ok(Forked::Child(Report(to))),
        pid => Ok(Forked::Parent(Coming { pid, report })),
    }
}

impl Report {
    /// Tells the parent why, and ends this process.
    pub fn fail(self, Errno(number): Errno) -> ! {
        let _ = File::from(self.0).write_all(&number.to_ne_bytes());
        // SAFETY: ends a child without running its parent's exit handlers.
        unsafe { libc::_exit(125) }
    }
}

impl Coming {
    /// Gives the PID of the child.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Gives the pipe that becomes readable when the child has succeeded or failed.
    pub fn report(&self) -> &OwnedFd {
        &self.report
    }

    /// Waits until the child has succeeded, and gives its PID. One that has failed is reaped.
    pub fn arrived(self) -> Outcome<i32> {
        let mut number = [0; 4];
        let told = File::from(self.report).read_exact(&mut number);
        if told.is_err() {
            return Ok(self.pid);
        }
        // SAFETY: waits for a child of this process alone.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
        Err(Errno(i32::from_ne_bytes(number)))
    }
}
