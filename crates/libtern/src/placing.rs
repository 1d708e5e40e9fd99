//! The calling process becomes a program on a node.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

use control_protocol::nodes::HOME;
use control_protocol::steward::{Program, RoomKind};
use control_protocol::tool::{Answer, Homecoming, Request};
use deputy_start::conversion;
use rustix::fs::{MemfdFlags, SealFlags};

use crate::daemon;
use crate::errors::{Errno, Outcome};

/// Bits of a file's mode that give other rights than the caller's.
const GIVES_RIGHTS: u32 = 0o6000;

/// The program that is to run.
pub struct Command {
    /// The path of its file.
    pub path: CString,
    /// The words that it is given.
    pub argv: Vec<CString>,
    /// The environment of the program.
    pub envp: Vec<CString>,
}

/// Becomes the program on a node, in node-local mode; returns on failure alone.
pub fn become_on(node: &str, command: &Command) -> Errno {
    match prepare(node, command) {
        Ok(Some(taken)) => {
            close_as_exec(&taken.channel);
            conversion::ignore_as_now();
            conversion::become_deputy(taken.channel, &taken.program)
        }
        Ok(None) => execute(command),
        Err(e) => e,
    }
}

/// A process that a steward has taken over, and what it needs to become the deputy.
struct Taken {
    channel: OwnedFd,
    program: Program,
}

/// Asks for a place. `None`: here, as the program itself.
fn prepare(node: &str, command: &Command) -> Outcome<Option<Taken>> {
    let path = std::path::absolute(OsStr::from_bytes(command.path.as_bytes()))?;
    rustix::fs::access(&path, rustix::fs::Access::EXEC_OK)?;
    if std::fs::metadata(&path)?.permissions().mode() & GIVES_RIGHTS != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    check_alone()?;
    let bytes = |list: &[CString]| list.iter().map(|word| word.as_bytes().to_vec()).collect();
    let program = Program {
        path: path.as_os_str().as_bytes().to_vec(),
        argv: bytes(&command.argv),
        envp: bytes(&command.envp),
        blocked: blocked_signals(),
    };
    let sealed = seal(&program)?;
    let kind = if node == HOME { RoomKind::Home } else { RoomKind::NodeLocal };
    let request = Request::Run {
        on: Some(node.to_owned()),
        movable: false,
        any_cpu: false,
        as_root: false,
        force: false,
        homecoming: Homecoming::Quiet,
        kind,
    };
    match daemon::ask(&request, &[sealed.as_fd()])? {
        (Answer::Placing { .. }, channel) => Ok(Some(Taken { channel, program })),
        (Answer::Here, _) => Ok(None),
        _ => Err(Errno(libc::EPROTO)),
    }
}

/// Closes what an exec would close, but the channel. A parent that waits for that knows that its
/// child has been taken over.
fn close_as_exec(channel: &OwnedFd) {
    let listed = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<RawFd> = listed.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in numbers.into_iter().filter(|fd| *fd != channel.as_raw_fd()) {
        // SAFETY: the process is about to be replaced: nothing in it uses the number any more.
        unsafe {
            if libc::fcntl(fd, libc::F_GETFD) == libc::FD_CLOEXEC {
                libc::close(fd);
            }
        }
    }
}

/// Only a process without other threads can become a deputy: they would run on in memory that is
/// gone.
fn check_alone() -> Outcome<()> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        _ => Err(Errno(libc::EBUSY)),
    }
}

fn execute(command: &Command) -> Errno {
    let pointers =
        |list: &[CString]| list.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let (argv, envp) = (pointers(&command.argv), pointers(&command.envp));
    // SAFETY: live strings, and arrays of them that end with null.
    unsafe { libc::execve(command.path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    std::io::Error::last_os_error().into()
}

/// The signals that the calling thread blocks (bit n-1 for signal n).
fn blocked_signals() -> u64 {
    let mut mask = 0u64;
    // SAFETY: the kernel writes eight bytes.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, std::ptr::null::<u64>(), &raw mut mask, 8) };
    mask
}

/// Puts the program into sealed memory, which cannot be changed.
fn seal(program: &Program) -> Outcome<OwnedFd> {
    let bytes = postcard::to_allocvec(program).map_err(|_| Errno(libc::E2BIG))?;
    let memory = rustix::fs::memfd_create("tern-program", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = File::from(memory);
    file.write_all(&bytes)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
    Ok(file.into())
}
