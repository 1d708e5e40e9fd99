//! Filters with user notification (seccomp(2), seccomp_unotify(2)).

use crate::error::check;
use crate::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// One instruction of classic BPF (linux/filter.h).
pub use libc::sock_filter as Instruction;

/// A call that a guest makes and that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    /// Names the call at its listener.
    pub id: u64,
    /// Thread, in the PID namespace of the reader.
    pub host_tid: i32,
    /// The number of the system call.
    pub nr: u32,
    /// The architecture of the caller (AUDIT_ARCH_).
    pub arch: u32,
    /// The arguments of the call.
    pub args: [u64; 6],
}

/// How a call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call returns this (negative: an error number).
    Value(i64),
    /// The hosting kernel runs the call.
    Continue,
}

/// Forbids more privileges to this thread and its children for ever.
pub fn no_new_privileges() -> Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, || "setting no_new_privs".into()).map(drop)
}

/// Installs the filter on the calling thread and returns its listener.
pub fn install(program: &[Instruction]) -> Result<OwnedFd> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program is live; returns a new descriptor.
    let fd = check(
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &filter,
            )
        },
        || "installing the filter".into(),
    )?;
    // SAFETY: the kernel just made it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Installs a filter that needs no listener on the calling thread.
pub fn install_more(program: &[Instruction]) -> Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program is live.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
    check(done, || "installing another filter".into()).map(drop)
}

/// The call by which another process, in whose memory the `sock_fprog` at `program` lies, installs
/// a filter: number and arguments. It returns the listener.
pub fn install_call(program: u64) -> (i64, [u64; 6]) {
    // All threads of the process get it at once (linux/seccomp.h).
    const TSYNC_ESRCH: u64 = 1 << 4;
    let (mode, listener) = (u64::from(libc::SECCOMP_SET_MODE_FILTER), libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    (libc::SYS_seccomp, [mode, listener | libc::SECCOMP_FILTER_FLAG_TSYNC | TSYNC_ESRCH, program, 0, 0, 0])
}

/// As [`install_call`], of a filter that needs no listener.
pub fn install_more_call(program: u64) -> (i64, [u64; 6]) {
    let mode = u64::from(libc::SECCOMP_SET_MODE_FILTER);
    (libc::SYS_seccomp, [mode, libc::SECCOMP_FILTER_FLAG_TSYNC, program, 0, 0, 0])
}

/// Gives a call that a guests' filter asks its listener about, and that means nothing by itself:
/// its number and arguments.
pub fn asking_call() -> (i64, [u64; 6]) {
    (libc::SYS_seccomp, [0; 6])
}

/// Takes the next call from a listener; `None` if the caller died meanwhile.
pub fn receive(listener: BorrowedFd<'_>) -> Result<Option<Notice>> {
    // SAFETY: all zero is what the kernel wants to see.
    let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one seccomp_notif.
    match check(unsafe { libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_RECV, &mut raw) }, || {
        "receiving a guest's call".into()
    }) {
        Err(e) if matches!(e.errno(), libc::ENOENT | libc::EINTR | libc::EAGAIN) => Ok(None),
        Err(e) => Err(e),
        Ok(_) => Ok(Some(Notice {
            id: raw.id,
            host_tid: raw.pid as i32,
            nr: raw.data.nr as u32,
            arch: raw.data.arch,
            args: raw.data.args,
        })),
    }
}

/// Answers a call. A caller that is gone (or was interrupted) is no error: `false`.
pub fn answer(listener: BorrowedFd<'_>, id: u64, answer: Answer) -> Result<bool> {
    let mut raw = match answer {
        Answer::Continue => {
            libc::seccomp_notif_resp { id, val: 0, error: 0, flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32 }
        }
        Answer::Value(v) if (-4095..0).contains(&v) => {
            libc::seccomp_notif_resp { id, val: 0, error: v as i32, flags: 0 }
        }
        Answer::Value(v) => libc::seccomp_notif_resp { id, val: v, error: 0, flags: 0 },
    };
    // SAFETY: the kernel reads one seccomp_notif_resp.
    match check(unsafe { libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_SEND, &mut raw) }, || {
        "answering a guest's call".into()
    }) {
        Err(e) if e.errno() == libc::ENOENT => Ok(false),
        other => other.map(|_| true),
    }
}

/// A descriptor to be put into a caller's table.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// The open file.
    pub file: BorrowedFd<'a>,
    /// Closed when the caller runs another program.
    pub close_on_exec: bool,
    /// The call is over with it: it returns the number. Never lost: the caller itself takes the
    /// number as it takes the descriptor.
    pub answers: bool,
}

/// Gives a descriptor to a caller that waits: its number there. `None`: it is gone or was
/// interrupted. An error is the caller's own (EMFILE).
pub fn give(listener: BorrowedFd<'_>, id: u64, given: Given<'_>) -> Result<Option<i32>> {
    const SECCOMP_ADDFD_FLAG_SEND: u32 = 2;
    #[repr(C)]
    struct AddFd {
        id: u64,
        flags: u32,
        source: u32,
        new: u32,
        new_flags: u32,
    }
    let raw = AddFd {
        id,
        flags: if given.answers { SECCOMP_ADDFD_FLAG_SEND } else { 0 },
        source: given.file.as_raw_fd() as u32,
        new: 0,
        new_flags: if given.close_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
    };
    // SAFETY: the kernel reads one seccomp_notif_addfd.
    match check(unsafe { libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_ADDFD, &raw) }, || {
        "giving a descriptor to a guest".into()
    }) {
        Err(e) if matches!(e.errno(), libc::ENOENT | libc::ESRCH | libc::EINTR | libc::EINPROGRESS) => Ok(None),
        other => other.map(Some),
    }
}

/// Has the kernel wake whoever takes a call, and then its caller, on the processor where the other
/// one runs until then (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP, since Linux 6.6): one of them waits
/// whenever the other works. An older kernel goes on as before.
pub fn wake_in_place(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: u64 = 1;
    // SAFETY: the argument is a number.
    unsafe { libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
}

/// Tells whether the call still waits: what was read of its memory belongs to it.
pub fn still_waits(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the kernel reads one u64.
    unsafe { libc::ioctl(listener.as_raw_fd(), SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0 }
}

// linux/seccomp.h: _IOWR('!', 0, struct seccomp_notif), _IOWR('!', 1, struct seccomp_notif_resp),
// _IOW('!', 2, __u64)
const SECCOMP_IOCTL_NOTIF_RECV: u64 = 0xc050_2100;
const SECCOMP_IOCTL_NOTIF_SEND: u64 = 0xc018_2101;
const SECCOMP_IOCTL_NOTIF_ID_VALID: u64 = 0x4008_2102;
/// _IOW('!', 3, struct seccomp_notif_addfd)
const SECCOMP_IOCTL_NOTIF_ADDFD: u64 = 0x4018_2103;

/// _IOW('!', 4, __u64)
const SECCOMP_IOCTL_NOTIF_SET_FLAGS: u64 = 0x4008_2104;

const _: () = assert!(size_of::<libc::seccomp_notif>() == 0x50 && size_of::<libc::seccomp_notif_resp>() == 0x18);

/// Gets a listener of another process, by the number that it has there.
pub fn listener_of(process: &crate::pidfd::PidFd, fd: i32) -> Result<OwnedFd> {
    process.get_fd(fd).map_err(|e| Error::new(format!("taking the filter's listener: {}", e.doing), e.source))
}
