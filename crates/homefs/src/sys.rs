//! System calls that no library wraps: file handles, credentials of one thread, leases, locks of
//! open files, detached mounts.

use rustix::io::{Errno, Result};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Checks the result of a raw system call: -1 and errno become an error.
fn check(result: libc::c_long) -> Result<libc::c_long> {
    if result >= 0 { Ok(result) } else { Err(last_errno()) }
}

pub(crate) fn last_errno() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

fn owned(fd: libc::c_long) -> OwnedFd {
    // SAFETY: the kernel has just created this descriptor; nothing else knows it.
    unsafe { OwnedFd::from_raw_fd(fd as RawFd) }
}

/// Gives the calling thread a table of descriptors of its own, with this one alone
/// (close_range(2)).
pub(crate) fn own_table(keep: RawFd) -> Result<()> {
    let keep = keep as u32;
    let close = |first: u32, last: u32, flags: u32| {
        // SAFETY: closes descriptors of a table that, from the first call on, no other thread has.
        check(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
    };
    close(keep + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)?;
    if keep > 0 { close(0, keep - 1, 0) } else { Ok(()) }
}

/// Tells whether the calling thread, as it acts now, may use the file so (faccessat2(2), by the
/// file-system identity).
pub(crate) fn may(path: &CStr, mode: i32) -> Result<()> {
    // SAFETY: the path is a C string that lives over the call.
    let asked = unsafe { libc::syscall(libc::SYS_faccessat2, libc::AT_FDCWD, path.as_ptr(), mode, libc::AT_EACCESS) };
    check(asked).map(drop)
}

/// MAX_HANDLE_SZ of `linux/exportfs.h`.
const MAX_HANDLE_BYTES: usize = 128;

#[repr(C)]
struct RawHandle {
    handle_bytes: u32,
    handle_type: i32,
    f_handle: [u8; MAX_HANDLE_BYTES],
}

/// Gives the key of an inode within its file system: the type of the handle (i32), then the handle
/// (`name_to_handle_at(2)`).
pub(crate) fn handle_of(fd: BorrowedFd<'_>) -> Result<Box<[u8]>> {
    let mut raw = RawHandle { handle_bytes: MAX_HANDLE_BYTES as u32, handle_type: 0, f_handle: [0; MAX_HANDLE_BYTES] };
    let mut mount_id = 0i32;
    // SAFETY: `raw` has room for the bytes that it says it has; the path is an empty C string.
    check(unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            fd.as_raw_fd(),
            c"".as_ptr(),
            &raw mut raw,
            &raw mut mount_id,
            libc::AT_EMPTY_PATH,
        )
    })?;
    let bytes = raw.f_handle.get(..raw.handle_bytes as usize).ok_or(Errno::OVERFLOW)?;
    Ok([&raw.handle_type.to_le_bytes()[..], bytes].concat().into())
}

/// Opens the inode with this key (`open_by_handle_at(2)`). `any` is a descriptor on its file
/// system, not an O_PATH one.
pub(crate) fn open_handle(any: BorrowedFd<'_>, key: &[u8], flags: i32) -> Result<OwnedFd> {
    let (kind, bytes) = key.split_first_chunk::<4>().ok_or(Errno::INVAL)?;
    let mut raw = RawHandle {
        handle_bytes: bytes.len() as u32,
        handle_type: i32::from_le_bytes(*kind),
        f_handle: [0; MAX_HANDLE_BYTES],
    };
    raw.f_handle.get_mut(..bytes.len()).ok_or(Errno::INVAL)?.copy_from_slice(bytes);
    // SAFETY: `raw` is a whole file_handle with `handle_bytes` valid bytes.
    let fd = check(unsafe { libc::syscall(libc::SYS_open_by_handle_at, any.as_raw_fd(), &raw mut raw, flags) })?;
    Ok(owned(fd))
}

/// Makes a private copy of the mount at `path`, without what is mounted below it (`open_tree(2)`).
pub(crate) fn clone_mount(path: &CStr) -> Result<OwnedFd> {
    const OPEN_TREE_CLONE: i32 = 1;
    // SAFETY: `path` is a C string.
    let fd = check(unsafe {
        libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), OPEN_TREE_CLONE | libc::O_CLOEXEC)
    })?;
    Ok(owned(fd))
}

/// Sets this thread's groups, file-system group and file-system user by the raw calls; glibc's
/// would change all threads.
pub(crate) fn set_ids(uid: u32, gid: u32, groups: &[u32]) -> Result<()> {
    // SAFETY: the pointer and the length describe `groups`; the other calls take numbers only.
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()))?;
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
        // Both return the previous id. Called with an impossible id, they return the present one.
        let now_gid = libc::syscall(libc::SYS_setfsgid, -1) as u32;
        let now_uid = libc::syscall(libc::SYS_setfsuid, -1) as u32;
        if (now_uid, now_gid) != (uid, gid) {
            return Err(Errno::PERM);
        }
    }
    Ok(())
}

#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// The capabilities of this thread (`capget(2)`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) permitted: u64,
    pub(crate) inheritable: u64,
}

pub(crate) fn capabilities() -> Result<Caps> {
    let mut header = CapHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let mut data = [CapData::default(); 2];
    // SAFETY: version 3 writes two data structs.
    check(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) })?;
    let join = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    Ok(Caps {
        permitted: join(data[0].permitted, data[1].permitted),
        inheritable: join(data[0].inheritable, data[1].inheritable),
    })
}

/// Makes these capabilities, as far as permitted, the effective ones of this thread (`capset(2)`).
pub(crate) fn set_effective(caps: Caps, effective: u64) -> Result<()> {
    let mut header = CapHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let effective = effective & caps.permitted;
    let part = |shift: u32| CapData {
        effective: (effective >> shift) as u32,
        permitted: (caps.permitted >> shift) as u32,
        inheritable: (caps.inheritable >> shift) as u32,
    };
    let data = [part(0), part(32)];
    // SAFETY: version 3 reads two data structs.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, data.as_ptr()) })?;
    Ok(())
}

/// Gives this thread its own umask (and root and current directory).
pub(crate) fn own_umask() -> Result<()> {
    // SAFETY: takes a number; affects this thread alone.
    check(unsafe { libc::syscall(libc::SYS_unshare, libc::CLONE_FS) }).map(drop)
}

pub(crate) fn gettid() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

fn fcntl(fd: BorrowedFd<'_>, command: i32, argument: libc::c_long) -> Result<i32> {
    // SAFETY: only commands that take a number come here.
    check(unsafe { libc::syscall(libc::SYS_fcntl, fd.as_raw_fd(), command, argument) }).map(|r| r as i32)
}

#[repr(C)]
struct OwnerEx {
    kind: i32,
    pid: i32,
}

/// Takes a read lease (`fcntl(2)`, F_SETLEASE). When it is broken, thread `tid` gets `signal` with
/// the descriptor's number.
pub(crate) fn take_lease(fd: BorrowedFd<'_>, tid: i32, signal: i32) -> Result<()> {
    const F_SETOWN_EX: i32 = 15;
    const F_OWNER_TID: i32 = 0;
    const F_SETSIG: i32 = 10;
    let owner = OwnerEx { kind: F_OWNER_TID, pid: tid };
    // SAFETY: F_SETOWN_EX reads one struct f_owner_ex.
    check(unsafe { libc::syscall(libc::SYS_fcntl, fd.as_raw_fd(), F_SETOWN_EX, &raw const owner) })?;
    fcntl(fd, F_SETSIG, signal.into())?;
    fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK.into()).map(drop)
}

/// Gives the lease of this open file up, if it has one. Like taking one, this needs CAP_LEASE, or
/// the file's owner (`vfs_setlease` in fs/locks.c).
pub(crate) fn drop_lease(fd: BorrowedFd<'_>) -> Result<()> {
    match fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK.into()) {
        // The kernel has removed the lease.
        Err(Errno::AGAIN) => Ok(()),
        other => other.map(drop),
    }
}

/// Tells whether this writable open file is the only one of its file: then the kernel grants a
/// write lease, which is given up at once.
pub(crate) fn has_one_opener(fd: BorrowedFd<'_>) -> bool {
    fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK.into()).is_ok() && drop_lease(fd).is_ok()
}

/// Tells whether the lease is held and no process waits for it.
pub(crate) fn lease_is_whole(fd: BorrowedFd<'_>) -> bool {
    fcntl(fd, libc::F_GETLEASE, 0) == Ok(libc::F_RDLCK)
}

/// Calls `fcntl(2)` for a lock of an open file description. `command` is F_OFD_SETLK, F_OFD_SETLKW
/// or F_OFD_GETLK.
pub(crate) fn ofd_lock(fd: BorrowedFd<'_>, command: i32, lock: &mut libc::flock) -> Result<()> {
    lock.l_pid = 0;
    // SAFETY: the three commands read, and F_OFD_GETLK writes, one struct flock.
    check(unsafe { libc::syscall(libc::SYS_fcntl, fd.as_raw_fd(), command, &raw mut *lock) }).map(drop)
}

/// Writes at `offset`, or at the end with RWF_APPEND (`pwritev2(2)`). `offset` -1 uses and moves
/// the description's position.
pub(crate) fn write_at(fd: BorrowedFd<'_>, data: &[u8], offset: i64, flags: i32) -> Result<usize> {
    let vec = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    // SAFETY: one iovec over `data`, which the kernel only reads. On 64 bits the offset is one
    // word; the high one is ignored.
    check(unsafe { libc::syscall(libc::SYS_pwritev2, fd.as_raw_fd(), &raw const vec, 1, offset, 0, flags) })
        .map(|n| n as usize)
}

/// Reads entries of a directory as the kernel packs them (`getdents64(2)`).
pub(crate) fn read_dir(fd: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize> {
    // SAFETY: the pointer and length describe `buf`.
    check(unsafe { libc::syscall(libc::SYS_getdents64, fd.as_raw_fd(), buf.as_mut_ptr(), buf.len()) })
        .map(|n| n as usize)
}

/// Tells whether the file system of an open file limits the space of users, groups or projects
/// (`quotactl_fd(2)`, Q_XGETQSTAT). A kernel or file system without quotas does not.
pub(crate) fn enforces_quotas(file: BorrowedFd<'_>) -> bool {
    // linux/dqblk_xfs.h: XQM_CMD(5), struct fs_quota_stat, FS_QUOTA_{U,G,P}DQ_ENFD.
    const Q_XGETQSTAT: libc::c_int = (b'X' as libc::c_int) << 8 | 5;
    const SUBCMD_SHIFT: u32 = 8;
    const ENFORCED: u16 = 1 << 1 | 1 << 3 | 1 << 5;
    #[repr(C)]
    struct QuotaState {
        version: i8,
        flags: u16,
        rest: [u64; 16],
    }
    let mut state = QuotaState { version: 0, flags: 0, rest: [0; 16] };
    let command = Q_XGETQSTAT << SUBCMD_SHIFT;
    // SAFETY: the kernel writes a struct of 80 bytes, which `state` has space for.
    let asked = unsafe { libc::syscall(libc::SYS_quotactl_fd, file.as_raw_fd(), command, 0, &raw mut state) };
    check(asked).is_ok() && state.flags & ENFORCED != 0
}

/// Gives this thread the lowest priority (`setpriority(2)`, which on Linux is per thread).
pub(crate) fn let_others_first() {
    // SAFETY: numbers only.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) } < 0 {
        tracing::debug!("cannot lower the priority of a background thread");
    }
}

/// Blocks this signal in this thread.
pub(crate) fn block_signal(signal: i32) {
    // SAFETY: an all-zero sigset_t is a valid one to initialise; the calls only write to it and to
    // this thread's mask.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Sends a signal to one thread of this process.
pub(crate) fn signal_thread(tid: i32, signal: i32) {
    // SAFETY: numbers only; a thread that is gone is an error, which is fine.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) };
}
