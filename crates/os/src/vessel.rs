//! Empty processes that become others: under a given number, and if need be in a PID namespace of
//! their own, in which any number is free (pid_namespaces(7), user_namespaces(7)).

use crate::error::check;
use crate::pidfd::PidFd;
use crate::{Error, Result, namespace, ptrace};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A PID namespace for the children that the caller makes from now on. Its first process reaps
/// orphans there, and ends when the caller has ended and no other process is left in it.
#[derive(Debug)]
pub struct OwnNumbers {
    /// The first process notices when this end is closed.
    _life: OwnedFd,
    /// Whether a user namespace was made, too, because the caller may not make the other one.
    pub has_users: bool,
}

/// Tells whether process, group and session `number` does not exist in the caller's PID namespace.
pub fn is_free(number: i32) -> bool {
    // SAFETY: signal 0 is never delivered.
    let is_there = |of: i32| unsafe { libc::kill(of, 0) == 0 || *libc::__errno_location() != libc::ESRCH };
    let is_thread = || std::path::Path::new("/proc").join(number.to_string()).exists();
    number > 1 && !is_there(number) && !is_there(-number) && !is_thread()
}

/// Makes a PID namespace for the caller's next children. The caller must have one thread.
///
/// # Errors
/// This machine allows the caller no such namespace.
pub fn own_numbers() -> Result<OwnNumbers> {
    let doing = || "making a PID namespace".to_owned();
    // SAFETY: numbers only.
    let has_users = match check(unsafe { libc::unshare(libc::CLONE_NEWPID) }, doing) {
        Ok(_) => false,
        Err(e) if e.errno() == libc::EPERM => {
            own_users()?;
            true
        }
        Err(e) => return Err(e),
    };
    let (ours, life) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|e| Error::new("making a pipe", std::io::Error::from(e)))?;
    // SAFETY: one thread, as the caller promised; the child makes system calls only.
    match check(unsafe { libc::fork() }, || "making the first process of a namespace".into())? {
        0 => be_first(ours.as_raw_fd()),
        _ => Ok(OwnNumbers { _life: life, has_users }),
    }
}

/// Enters a user namespace in which the caller keeps its user and its group, and makes the PID
/// namespace in that.
fn own_users() -> Result<()> {
    // SAFETY: numbers only.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let doing = || "making a user and a PID namespace".to_owned();
    // SAFETY: numbers only.
    check(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) }, doing)?;
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{uid} {uid} 1\n")),
        ("gid_map", format!("{gid} {gid} 1\n")),
    ] {
        let path = format!("/proc/self/{file}");
        std::fs::write(&path, text).map_err(|e| Error::new(format!("writing {path}"), e))?;
    }
    Ok(())
}

/// Is the first process of a namespace. Makes system calls only.
fn be_first(life: RawFd) -> ! {
    const PATIENCE: libc::timespec = libc::timespec { tv_sec: 1, tv_nsec: 0 };
    // SAFETY: system calls on numbers and on memory that lives here.
    unsafe {
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        libc::prctl(libc::PR_SET_NAME, c"tern-undump".as_ptr());
        libc::dup2(life, 0);
        libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0);
        let mut children: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut children);
        libc::sigaddset(&mut children, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_SETMASK, &children, std::ptr::null_mut());
        loop {
            libc::sigtimedwait(&children, std::ptr::null_mut(), &PATIENCE);
            while libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) > 0 {}
            let mut end = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
            let is_alone = libc::kill(-1, 0) != 0;
            if libc::poll(&mut end, 1, 0) > 0 && is_alone {
                libc::_exit(0);
            }
        }
    }
}

/// Makes an empty process with this number, traced by the caller and stopped. The process has the
/// caller's open files, directory and limits, and ends with its tracer. `own`: the namespace in
/// which the process begins; there it also gets a /proc that shows that namespace, if the machine
/// allows it.
///
/// # Errors
/// The number is taken, or the caller may not choose numbers.
pub fn make(number: i32, own: Option<&OwnNumbers>) -> Result<(ptrace::Stopped, PidFd)> {
    // SAFETY: the child makes system calls only.
    let Some((child, pidfd)) = (unsafe { namespace::fork_as(number) })? else { wait_to_be_filled(own.is_some()) };
    let made = stopped(child);
    let pidfd = PidFd::from(pidfd);
    if made.is_err() {
        end(child, &pidfd);
    }
    Ok((made?, pidfd))
}

/// Ends such a process, and waits for its end. The caller loses the ends that other children tell
/// meanwhile.
pub fn end(child: i32, pidfd: &PidFd) {
    let _ = pidfd.kill(libc::SIGKILL);
    let mut status = 0;
    loop {
        // The ends of its threads come first: their tracer is told of each.
        // SAFETY: writes one int.
        let of = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
        let has_ended = libc::WIFEXITED(status) || libc::WIFSIGNALED(status);
        if of < 0 || of == child && has_ended {
            return;
        }
    }
}

fn wait_to_be_filled(shows_own_numbers: bool) -> ! {
    // SAFETY: system calls on numbers and on strings that live for ever.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if shows_own_numbers && libc::unshare(libc::CLONE_NEWNS) == 0 {
            let (none, flags) = (std::ptr::null(), libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC);
            libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_SLAVE, none.cast());
            // Where a part of /proc is covered, as in containers, the kernel refuses it.
            libc::mount(c"proc".as_ptr(), c"/proc".as_ptr(), c"proc".as_ptr(), flags, none.cast());
        }
        loop {
            libc::pause();
        }
    }
}

fn stopped(child: i32) -> Result<ptrace::Stopped> {
    let failed = |e| match e {
        ptrace::TraceError::Gone => {
            Error::new(format!("stopping {child}"), std::io::Error::from_raw_os_error(libc::ESRCH))
        }
        ptrace::TraceError::Failed(e) => e,
    };
    let tid = ptrace::HostTid(child);
    ptrace::seize(tid).map_err(failed)?;
    wait_until_paused(child)?;
    ptrace::interrupt(tid).map_err(failed)?;
    loop {
        match ptrace::wait_for(tid)? {
            ptrace::Event::Halt(stopped, _) => return Ok(stopped),
            ptrace::Event::Signal(stopped, signal) => stopped.resume(signal).map_err(failed)?,
            ptrace::Event::Exited(_) | ptrace::Event::Killed(_) => return Err(failed(ptrace::TraceError::Gone)),
            ptrace::Event::Made(stopped, _)
            | ptrace::Event::Exec(stopped, _)
            | ptrace::Event::SystemCall(stopped)
            | ptrace::Event::Filter(stopped)
            | ptrace::Event::Other(stopped) => stopped.resume(0).map_err(failed)?,
        }
    }
}

/// Waits until the child has made all that it makes by itself.
fn wait_until_paused(child: i32) -> Result<()> {
    const PAUSE: &str = "34 ";
    const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_micros(100);
    let path = format!("/proc/{child}/syscall");
    loop {
        let said = std::fs::read_to_string(&path).map_err(|e| Error::new(format!("reading {path}"), e))?;
        if said.starts_with(PAUSE) {
            return Ok(());
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}
