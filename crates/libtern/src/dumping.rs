//! Processes as streams: tern(1) writes and reads them, and needs no daemon.

use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::daemon;
use crate::errors::{Errno, Outcome};

/// Names the program, if it is not found by PATH.
const PROGRAM_ENV: &str = "TERN_PROGRAM";
/// Status of a child that could not execute the program.
const NOT_EXECUTED: i32 = 127;

/// The process in which a call returns, of two.
pub enum Side {
    /// The process that was dumped.
    Original,
    /// A process that was made from the dump.
    Copy,
}

/// Writes process `pid` to `fd`. `None`: the calling one.
///
/// The original waits for a child that has no exit signal: no other thread's wait(2) takes it, and
/// it is not reaped by itself if the program ignores SIGCHLD. A copy has no children, so the same
/// call tells it what it is.
pub fn dump(pid: Option<i32>, fd: RawFd, options: &[&CStr]) -> Outcome<Side> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let number = CString::new(pid.unwrap_or(own).to_string()).map_err(|_| Errno(libc::EINVAL))?;
    let command = Command::new(&[&[c"dump", c"--errno", &number], options].concat());
    // SAFETY: as fork(2); the child makes system calls only.
    let child = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) } as i32;
    match child {
        -1 => Err(std::io::Error::last_os_error().into()),
        0 => be_between(&command, fd),
        child => match wait(child) {
            Ok(0) => Ok(Side::Original),
            Ok(number) => Err(Errno(number)),
            Err(Errno(libc::ECHILD)) if pid.is_none() => Ok(Side::Copy),
            Err(e) => Err(e),
        },
    }
}

/// Runs the command in a child, and ends as it does. (A child that executes a program gets an exit
/// signal.)
fn be_between(command: &Command, fd: RawFd) -> ! {
    // SAFETY: system calls on numbers and on memory that was made before.
    unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        match libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32 {
            0 => {
                libc::dup2(fd, 1);
                command.execute()
            }
            child => libc::_exit(wait(child).unwrap_or_else(|Errno(number)| number)),
        }
    }
}

/// Waits for a child, to its end; its status, as the number of an error.
fn wait(child: i32) -> Outcome<i32> {
    let mut status = 0;
    loop {
        // SAFETY: writes one int.
        if unsafe { libc::waitpid(child, &mut status, libc::__WALL) } >= 0 {
            break;
        }
        match std::io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::EINTR) => {}
            e => return Err(e.into()),
        }
    }
    match libc::WIFEXITED(status) {
        true if libc::WEXITSTATUS(status) == NOT_EXECUTED => Ok(libc::ENOENT),
        true => Ok(libc::WEXITSTATUS(status)),
        false => Ok(libc::EIO),
    }
}

/// Becomes the process that was written to `fd`: returns only if there is none.
pub fn undump(fd: RawFd, options: &[&CStr]) -> Errno {
    match stand_up(fd, options) {
        Ok(child) => match CString::new(child.to_string()) {
            Ok(number) => Command::new(&[c"undump", c"--follow", &number]).execute(),
            Err(_) => Errno(libc::EINVAL),
        },
        Err(e) => e,
    }
}

/// Has a child make the process; gives the child, which follows it.
fn stand_up(fd: RawFd, options: &[&CStr]) -> Outcome<i32> {
    let (report, told) = pipe_with(PipeFlags::CLOEXEC)?;
    // Neither is closed when the child executes the program.
    let (stream, told_there) = (inherited(fd)?, inherited(told.as_raw_fd())?);
    drop(told);
    let number = |fd: &OwnedFd| CString::new(fd.as_raw_fd().to_string()).map_err(|_| Errno(libc::EINVAL));
    let (from, to) = (number(&stream)?, number(&told_there)?);
    let command = Command::new(&[&[c"undump", c"--from", &from, c"--report", &to], options].concat());
    // SAFETY: as fork(2); the child makes system calls only.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(std::io::Error::last_os_error().into()),
        0 => command.execute(),
        child => child,
    };
    drop(told_there);
    let mut number = [0; 4];
    let result = match File::from(report).read_exact(&mut number).map(|()| i32::from_ne_bytes(number)) {
        Ok(0) => return Ok(child),
        Ok(number) => Errno(number),
        // The program was not found, or was killed.
        Err(_) => Errno(libc::ENOENT),
    };
    let _ = wait(child);
    Err(result)
}

fn inherited(fd: RawFd) -> Outcome<OwnedFd> {
    const BEHIND_STANDARD: RawFd = 3;
    // SAFETY: the caller's descriptor; a bad one is refused.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD, BEHIND_STANDARD) };
    if copy < 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    // SAFETY: the kernel just made it for us.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(copy) })
}

/// A command of tern(1), made before a fork.
struct Command {
    program: CString,
    words: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Command {
    fn new(words: &[&CStr]) -> Command {
        let named = daemon::environment(PROGRAM_ENV).and_then(|name| CString::new(name.into_vec()).ok());
        let program = named.unwrap_or_else(|| c"tern".to_owned());
        let words: Vec<CString> = std::iter::once(c"tern").chain(words.iter().copied()).map(CStr::to_owned).collect();
        let pointers = words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
        Command { program, words, pointers }
    }

    /// Becomes the program, or ends.
    fn execute(&self) -> ! {
        debug_assert_eq!(self.words.len() + 1, self.pointers.len());
        // SAFETY: live strings, and an array of them that ends with null.
        unsafe {
            libc::execvp(self.program.as_ptr(), self.pointers.as_ptr());
            libc::_exit(NOT_EXECUTED)
        }
    }
}
