//! Namespaces and processes made in them (clone3(2), user_namespaces(7), time_namespaces(7)).

use crate::error::check;
use crate::id_ranges::Extent;
use crate::{Error, Result};
use std::os::fd::{FromRawFd, OwnedFd};

/// `struct clone_args` (linux/sched.h).
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Everything that a room has of its own, but time (made by the porter, for its children).
pub const ROOM: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWCGROUP) as u64;

/// The namespaces of a room whose processes use the machine's network, host name and objects of
/// interprocess communication.
pub const NODE_LOCAL_ROOM: u64 = ROOM & !((libc::CLONE_NEWNET | libc::CLONE_NEWUTS | libc::CLONE_NEWIPC) as u64);

/// The same, for processes whose root is the machine's own.
pub const NODE_ROOT_ROOM: u64 = NODE_LOCAL_ROOM & !(libc::CLONE_NEWUSER as u64);

/// Makes a child in new namespaces `flags`. `None` in the child; number and pidfd in the parent.
///
/// # Safety
/// The caller has no other threads, or the child does only what is safe after fork in a program
/// with threads (no allocation that may be locked, no locks) until it execs or exits.
pub unsafe fn fork_into(flags: u64) -> Result<Option<(i32, OwnedFd)>> {
    // SAFETY: passed on.
    unsafe { fork(flags, None) }
}

/// Makes a child with the number `pid` in the caller's PID namespace (set_tid:
/// CAP_CHECKPOINT_RESTORE there).
///
/// # Safety
/// As [`fork_into`].
pub unsafe fn fork_as(pid: i32) -> Result<Option<(i32, OwnedFd)>> {
    // SAFETY: passed on.
    unsafe { fork(0, Some(pid)) }
}

unsafe fn fork(flags: u64, pid: Option<i32>) -> Result<Option<(i32, OwnedFd)>> {
    let mut pidfd: i32 = -1;
    let numbers = [pid.unwrap_or(0)];
    let args = CloneArgs {
        flags: flags | libc::CLONE_PIDFD as u64,
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD as u64,
        set_tid: if pid.is_some() { numbers.as_ptr() as u64 } else { 0 },
        set_tid_size: u64::from(pid.is_some()),
        ..CloneArgs::default()
    };
    // SAFETY: no new stack: the child goes on here with a copy of the memory, as the caller
    // promised to bear.
    let child = check(unsafe { libc::syscall(libc::SYS_clone3, &args, size_of::<CloneArgs>()) }, || match pid {
        Some(pid) => format!("making process {pid}"),
        None => "making a process in new namespaces".into(),
    })?;
    if child == 0 {
        return Ok(None);
    }
    // SAFETY: the kernel just made the pidfd for us.
    Ok(Some((child as i32, unsafe { OwnedFd::from_raw_fd(pidfd) })))
}

/// Maps the ids of process `pid`'s user namespace.
pub fn map_ids(pid: i32, extents: &[Extent]) -> Result<()> {
    let lines: String = extents.iter().map(|e| format!("{} {} {}\n", e.inside, e.outside, e.count)).collect();
    for file in ["uid_map", "gid_map"] {
        let path = format!("/proc/{pid}/{file}");
        // The kernel takes a map in one write.
        std::fs::write(&path, &lines).map_err(|e| Error::new(format!("writing {path}"), e))?;
    }
    Ok(())
}

/// Gives the children made from now on clocks that are ahead of this machine's by so many
/// nanoseconds (CLOCK_MONOTONIC, CLOCK_BOOTTIME).
pub fn shift_time(monotonic_ns: i64, boottime_ns: i64) -> Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::unshare(libc::CLONE_NEWTIME) }, || "making a time namespace".into())?;
    let line =
        |name: &str, ns: i64| format!("{name} {} {}\n", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
    let text = line("monotonic", monotonic_ns) + &line("boottime", boottime_ns);
    std::fs::write("/proc/self/timens_offsets", text).map_err(|e| Error::new("writing /proc/self/timens_offsets", e))
}

/// Reads by how many nanoseconds the clocks of process `pid` (CLOCK_MONOTONIC, CLOCK_BOOTTIME) are
/// ahead of this machine's; zeros where the kernel has no time namespaces.
pub fn clock_offsets(pid: i32) -> (i64, i64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/timens_offsets")).unwrap_or_default();
    let of = |name: &str| {
        let mut words = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().split_whitespace();
        let mut next = || words.next().and_then(|word| word.parse::<i64>().ok()).unwrap_or_default();
        next().saturating_mul(1_000_000_000).saturating_add(next())
    };
    (of("monotonic"), of("boottime"))
}

/// Sets host and domain name of the UTS namespace.
pub fn set_names(host: &[u8], domain: &[u8]) -> Result<()> {
    // SAFETY: pointer and length of live slices.
    check(unsafe { libc::sethostname(host.as_ptr().cast(), host.len()) }, || "setting the host name".into())?;
    // SAFETY: as above.
    check(unsafe { libc::setdomainname(domain.as_ptr().cast(), domain.len()) }, || "setting the domain name".into())
        .map(drop)
}

/// Nanoseconds of a clock.
pub fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; the clocks asked for exist on every kernel that tern runs on.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Takes real, effective, saved and supplementary ids in this thread (a single-threaded process).
pub fn become_user(uid: [u32; 3], gid: [u32; 3], groups: &[u32]) -> Result<()> {
    // SAFETY: pointer and length of a live slice; then plain numbers.
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()), || {
            format!("taking groups {groups:?}")
        })?;
        check(libc::syscall(libc::SYS_setresgid, gid[0], gid[1], gid[2]), || format!("taking group ids {gid:?}"))?;
        check(libc::syscall(libc::SYS_setresuid, uid[0], uid[1], uid[2]), || format!("taking user ids {uid:?}"))?;
    }
    Ok(())
}

/// Touches files as this user and group from now on, in this thread alone (setfsuid(2)). A FUSE
/// server in a user namespace is asked only by ids that are mapped there.
pub fn touch_files_as(uid: u32, gid: u32) {
    // SAFETY: plain numbers; the raw calls concern the calling thread.
    unsafe {
        libc::syscall(libc::SYS_setfsgid, gid);
        libc::syscall(libc::SYS_setfsuid, uid);
    }
}

/// Tells whether others of the same user may look into this process (PR_SET_DUMPABLE).
pub fn set_dumpable(on: bool) -> Result<()> {
    // SAFETY: no memory is passed.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, i32::from(on), 0, 0, 0) }, || "setting dumpable".into()).map(drop)
}

/// Takes all but these capabilities out of the bounding set, so that no exec brings them back.
pub fn keep_capabilities(keep: u64) {
    for capability in 0..64 {
        if keep & (1 << capability) == 0 {
            // SAFETY: no memory is passed; numbers that the kernel does not know are refused.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
    }
}

/// From now on a change of user leaves this thread's capabilities as they are (capabilities(7),
/// SECBIT_NO_SETUID_FIXUP), also in what it executes and makes.
pub fn keep_capabilities_of_others() -> Result<()> {
    const SECBIT_NO_SETUID_FIXUP: libc::c_ulong = 1 << 2; // linux/securebits.h
    // SAFETY: no memory is passed.
    check(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) }, || {
        "having capabilities outlast a change of user".into()
    })
    .map(drop)
}

/// Takes these capabilities, and gives up all others. Ambient ones must be permitted and
/// inheritable.
pub fn take_capabilities(sets: CapabilitySets, ambient: u64) -> Result<()> {
    let (head, data) = capabilities(sets);
    // SAFETY: a header and two records, as version 3 has them.
    let done = unsafe { libc::syscall(libc::SYS_capset, head.as_ptr(), data.as_ptr()) };
    check(done, || "taking capabilities".into())?;
    for capability in (0..64).filter(|capability| ambient & (1 << capability) != 0) {
        // SAFETY: no memory is passed.
        let done = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_RAISE, capability, 0, 0) };
        check(done, || format!("keeping capability {capability} for programs"))?;
    }
    Ok(())
}

/// The bit of CAP_CHECKPOINT_RESTORE (linux/capability.h).
pub const CHECKPOINT_RESTORE: u64 = 1 << 40;

/// Has CAP_CHECKPOINT_RESTORE and no other effective capability; may still take those of
/// `permitted`.
pub fn take_checkpoint_restore(permitted: u64) -> Result<()> {
    let sets =
        CapabilitySets { permitted: permitted | CHECKPOINT_RESTORE, effective: CHECKPOINT_RESTORE, inheritable: 0 };
    take_capabilities(sets, 0)
}

/// What capset(2) sets, a bit for each capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilitySets {
    /// Those that the thread may take.
    pub permitted: u64,
    /// Those that count.
    pub effective: u64,
    /// Those that a program which it executes may be given.
    pub inheritable: u64,
}

/// What capset(2) is given for these capabilities: header and data.
pub fn capabilities(sets: CapabilitySets) -> ([u32; 2], [u32; 6]) {
    const VERSION_3: u32 = 0x2008_0522;
    let [low, high] =
        [0, 32].map(|at| [sets.effective, sets.permitted, sets.inheritable].map(|bits| (bits >> at) as u32));
    ([VERSION_3, 0], [low[0], low[1], low[2], high[0], high[1], high[2]])
}
