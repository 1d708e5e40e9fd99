//! Namespaces, numbers of processes, tracing, filters, limits.

use super::{Outcome, child};
use crate::pairs::Diagnosis;
use std::os::fd::OwnedFd;

/// The oldest kernel that is supported: major, minor.
const FLOOR: (u32, u32) = (6, 1);
/// The number of `CAP_SYS_RESOURCE` (linux/capability.h).
const CAP_SYS_RESOURCE: u32 = 24;
/// Numbers that a fresh PID namespace does not have yet.
const SOME_PID: i32 = 77;
const SOME_LAST_PID: (&[u8], i32) = (b"200", 201);

/// Kernel release, as uname(2).
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

pub fn kernel() -> Outcome {
    if version(&release()) >= Some(FLOOR) { Outcome::Found(0) } else { Outcome::Missing(libc::ENOSYS) }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn unshare(flags: i32) -> i64 {
    // SAFETY: numbers only; the caller is a child of one thread.
    child::result(i64::from(unsafe { libc::unshare(flags) }))
}

pub fn socket_pairs() -> Outcome {
    let told = || {
        let (one, other) = crate::socket::pair()?;
        let inode = |socket: &OwnedFd| rustix::fs::fstat(socket).map(|stat| stat.st_ino).unwrap_or_default();
        let told = Diagnosis::of(std::process::id() as i32)?.ask(inode(&one))?;
        Ok::<_, crate::Error>(told.peer == Some(inode(&other)))
    };
    match told() {
        Ok(true) => Outcome::Found(0),
        Ok(false) => Outcome::Missing(libc::ENOENT),
        Err(e) => Outcome::Missing(e.errno()),
    }
}

pub fn namespaces() -> Outcome {
    child::outcome(|| unshare(crate::namespace::ROOM as i32))
}

pub fn time_namespace() -> Outcome {
    child::outcome(|| match unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWTIME) {
        0 => child::write(c"/proc/self/timens_offsets", b"monotonic 1000 0\nboottime 1000 0\n"),
        refused => refused,
    })
}

/// Some distributions let ordinary users make the namespace, but give no capabilities in it: so a
/// network namespace is made with them.
pub fn unprivileged() -> Outcome {
    const NOBODY: u32 = 65534;
    child::outcome(|| {
        // SAFETY: numbers only. An ordinary user stays who he is.
        let dropped = unsafe { libc::geteuid() != 0 || libc::setresuid(NOBODY, NOBODY, NOBODY) == 0 };
        if !dropped {
            return -i64::from(child::errno());
        }
        match unshare(libc::CLONE_NEWUSER) {
            0 => unshare(libc::CLONE_NEWNET),
            refused => refused,
        }
    })
}

/// Runs `attempt` as process 1 of a fresh PID namespace.
fn as_first(attempt: impl FnOnce() -> i64) -> Outcome {
    child::outcome(|| match unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) {
        0 => match child::outcome(attempt) {
            Outcome::Found(value) => value as i64,
            Outcome::Missing(errno) => -i64::from(errno),
        },
        refused => refused,
    })
}

/// The number that a new process gets; `wanted` if it is to have a given one.
fn make(wanted: Option<i32>) -> i64 {
    let numbers = [wanted.unwrap_or(0)];
    let mut args = [0u64; 11]; // struct clone_args (linux/sched.h)
    args[4] = libc::SIGCHLD as u64;
    if wanted.is_some() {
        (args[8], args[9]) = (numbers.as_ptr() as u64, 1);
    }
    // SAFETY: a copy of this process on its own copy of the stack, which ends at once; arguments
    // live through the call.
    unsafe {
        let made = libc::syscall(libc::SYS_clone3, args.as_ptr(), size_of_val(&args));
        if made == 0 {
            libc::_exit(0);
        }
        let answer = child::result(made);
        libc::waitpid(made as i32, std::ptr::null_mut(), 0);
        answer
    }
}

/// 0 if the number is the expected one.
fn expect(made: i64, pid: i32) -> i64 {
    if made == i64::from(pid) { 0 } else { made.min(-i64::from(libc::EOPNOTSUPP)) }
}

pub fn set_tid() -> Outcome {
    as_first(|| expect(make(Some(SOME_PID)), SOME_PID))
}

fn after(last: &[u8], pid: i32) -> i64 {
    match child::write(c"/proc/sys/kernel/ns_last_pid", last) {
        0 => expect(make(None), pid),
        refused => refused,
    }
}

pub fn last_pid() -> Outcome {
    as_first(|| after(SOME_LAST_PID.0, SOME_LAST_PID.1))
}

/// Found if no home can have higher numbers than a room here.
pub fn pid_max() -> Outcome {
    const MOST: u64 = 4_194_304; // PID_MAX_LIMIT (linux/threads.h)
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    let here: u64 = text.trim().parse().unwrap_or(0);
    let works = || as_first(|| after(b"4194200", 4_194_201));
    match (here, if here >= MOST { Outcome::Found(0) } else { works() }) {
        (here, Outcome::Found(_)) => Outcome::Found(here),
        (_, missing) => missing,
    }
}

pub fn fetch_descriptor() -> Outcome {
    child::outcome(|| {
        // SAFETY: numbers only; descriptors end with this child.
        unsafe {
            let own = libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            let me = libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0);
            if own < 0 || me < 0 {
                return -i64::from(child::errno());
            }
            child::result(libc::syscall(libc::SYS_pidfd_getfd, me, own, 0)).min(0)
        }
    })
}

/// Installs a filter that allows everything, with a listener.
pub fn notification() -> Outcome {
    child::outcome(|| {
        let mut allow = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW };
        let program = libc::sock_fprog { len: 1, filter: &raw mut allow };
        // SAFETY: the program lives through the call; the filter ends with this child.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
            child::result(libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program))
                .min(0)
        }
    })
}

pub fn tracing() -> Outcome {
    child::outcome(|| {
        // SAFETY: the grandchild waits for its end; it is killed and reaped here.
        unsafe {
            let target = libc::fork();
            if target == 0 {
                loop {
                    libc::pause();
                }
            }
            let seized = child::result(libc::ptrace(libc::PTRACE_SEIZE, target, 0, 0));
            libc::kill(target, libc::SIGKILL);
            libc::waitpid(target, std::ptr::null_mut(), 0);
            seized
        }
    })
}

/// Gives the version that limits, if all three can be limited.
pub fn limits() -> Outcome {
    let found = crate::cgroup::detect().unwrap_or_default();
    let of = |wanted: &str| found.iter().find(|h| h.controllers.iter().any(|c| c == wanted));
    match (of("cpu"), of("memory"), of("pids")) {
        (Some(cpu), Some(_), Some(_)) => Outcome::Found(if cpu.unified { 2 } else { 1 }),
        _ => Outcome::Missing(libc::EOPNOTSUPP),
    }
}

pub fn raise_limits() -> Outcome {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    if bits >> CAP_SYS_RESOURCE & 1 == 1 { Outcome::Found(0) } else { Outcome::Missing(libc::EPERM) }
}

/// Yama's scope 1 forbids ordinary users, 2 all but the privileged, 3 everybody.
pub fn trace_scope() -> Outcome {
    let text = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match text.trim().parse().unwrap_or(0) {
        0 => Outcome::Found(0),
        _ => Outcome::Missing(libc::EPERM),
    }
}

/// Whether it can be asked for is seen without asking.
pub fn awake() -> Outcome {
    match std::fs::File::options().write(true).open(crate::awake::PATH) {
        Ok(_) => Outcome::Found(0),
        Err(e) => Outcome::Missing(e.raw_os_error().unwrap_or(libc::EIO)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_compare_by_number() {
        assert_eq!(version("6.1.0-18-amd64"), Some((6, 1)));
        assert_eq!(version("6.18.44-fc"), Some((6, 18)));
        assert!(version("6.10") > Some(FLOOR) && version("5.19.0") < Some(FLOOR) && version("") < Some(FLOOR));
    }
}
