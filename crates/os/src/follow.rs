//! Being in the place of a child: signals go to it, its stops and its end are the caller's.

use crate::Result;
use crate::error::check;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this status.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

/// Has the kernel keep ends of children until they are waited for. A caller whose parent ignored
/// SIGCHLD ignores it, too, and would wait for ever (wait(2), NOTES).
pub fn keep_ends_of_children() {
    // SAFETY: numbers only.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Holds back all signals of the calling thread until [`follow`] passes them on.
pub fn hold_signals() {
    // SAFETY: the set lives here.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
    }
}

/// Follows `child` to its end. The caller, which has one thread, has called [`hold_signals`].
///
/// # Errors
/// `child` is no child of the caller.
pub fn follow(child: i32) -> Result<Ended> {
    loop {
        if let Some(ended) = look(child)? {
            return Ok(ended);
        }
        // SAFETY: the set and the information live here.
        unsafe {
            let (mut all, mut info): (libc::sigset_t, libc::siginfo_t) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&mut all);
            let signal = libc::sigwaitinfo(&all, &mut info);
            // The terminal has sent its signals to the child, too: they go to the whole group.
            let is_terminals = info.si_code == libc::SI_KERNEL;
            if signal > 0 && signal != libc::SIGCHLD && !is_terminals {
                libc::kill(child, signal);
            }
        }
    }
}

/// Looks what has become of the child. The caller stops with it.
fn look(child: i32) -> Result<Option<Ended>> {
    loop {
        let mut status = 0;
        // SAFETY: writes one int.
        let seen = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG | libc::WUNTRACED) };
        match check(seen, || format!("waiting for {child}")) {
            Err(e) if e.errno() == libc::EINTR => {}
            Err(e) => return Err(e),
            Ok(0) => return Ok(None),
            Ok(_) if libc::WIFEXITED(status) => return Ok(Some(Ended::Exited(libc::WEXITSTATUS(status) as u8))),
            Ok(_) if libc::WIFSIGNALED(status) => return Ok(Some(Ended::Killed(libc::WTERMSIG(status)))),
            // SAFETY: numbers only. The shell that continues the caller means its child.
            Ok(_) => unsafe {
                libc::kill(libc::getpid(), libc::SIGSTOP);
                libc::kill(child, libc::SIGCONT);
            },
        }
    }
}

/// Ends as the child has, without a core file: returns the status, or dies by the signal.
pub fn end_like(ended: Ended) -> u8 {
    const SIGNALLED: i32 = 128;
    let signal = match ended {
        Ended::Exited(status) => return status,
        Ended::Killed(signal) => signal,
    };
    // SAFETY: numbers, and a set and a limit that live here.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
    (SIGNALLED + signal) as u8
}
