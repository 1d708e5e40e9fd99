//! What the kernel says of a process (proc(5)), parsed by hand.

mod descriptor_limits;
mod limits;
mod line;

pub use descriptor_limits::MoreDescriptors;
pub use limits::{Limit, limit};
pub use line::{Line, line, living};

use crate::{Error, Result};
use std::path::PathBuf;

fn path(pid: i32, what: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{what}"))
}

/// Most of these files fit in so much: two reads, where `std::fs::read` feels its way.
const USUAL_BYTES: usize = 4096;

/// All of a file of /proc/PID: its size is not known before.
pub(crate) fn slurp(pid: i32, what: &str) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| Error::new(format!("reading /proc/{pid}/{what}"), e);
    let file = std::fs::File::open(path(pid, what)).map_err(failed)?;
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    loop {
        match rustix::io::read(&file, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => return Ok(bytes),
            Ok(_) => bytes.reserve(USUAL_BYTES),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(failed(e.into())),
        }
    }
}

/// Gives the mounts that a process sees, one a line (proc_pid_mountinfo(5)).
///
/// # Errors
/// There is no such process, or it may not be looked at.
pub fn mounts(pid: i32) -> Result<String> {
    Ok(String::from_utf8_lossy(&slurp(pid, "mountinfo")?).into_owned())
}

fn odd(pid: i32, what: &str) -> Error {
    Error::new(format!("understanding /proc/{pid}/{what}"), std::io::Error::from(std::io::ErrorKind::InvalidData))
}

/// What /proc/PID/status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The letter of the state.
    pub state: char,
    /// The thread group, which is the PID.
    pub tgid: i32,
    /// PID of the parent.
    pub ppid: i32,
    /// Numbers in the PID namespaces, outermost first.
    pub ns_tids: Vec<i32>,
    /// Real, effective, saved, file-system user id.
    pub uid: [u32; 4],
    /// Real, effective, saved, file-system group id.
    pub gid: [u32; 4],
    /// The supplementary groups.
    pub groups: Vec<u32>,
    /// The effective capabilities.
    pub capabilities: u64,
    /// The permitted capabilities.
    pub permitted: u64,
    /// The inheritable capabilities.
    pub inheritable: u64,
    /// The ambient capabilities.
    pub ambient: u64,
    /// The most that a program which it executes can be given (capabilities(7), bounding set).
    pub bounding: u64,
    /// Blocked signals of this thread.
    pub blocked: u64,
    /// Signals that wait, for it or for any thread of its process.
    pub pending: u64,
    /// The ignored signals, a bit each.
    pub ignored: u64,
    /// The kind of filter that it is under (0: none).
    pub seccomp: u32,
    /// Signals that have a handler.
    pub caught: u64,
    /// The mask of umask(2).
    pub umask: u32,
    /// The number of threads.
    pub threads: u32,
    /// Resident memory, bytes.
    pub rss_bytes: u64,
}

/// Returns the user whose a process with these user ids (real first) is: root's, if any of them is
/// root's, for it can take root's rights again; else its real user's.
pub fn owner(uids: &[u32]) -> u32 {
    if uids.contains(&0) { 0 } else { uids.first().copied().unwrap_or(0) }
}

/// Makes this process the leader of a session of its own, without a terminal (setsid(2)).
///
/// # Errors
/// It leads a process group already.
pub fn lead_session() -> Result<()> {
    rustix::process::setsid().map(drop).map_err(|e| Error::new("leading a session", std::io::Error::from(e)))
}

/// Reads the file /proc/PID/status.
pub fn status(pid: i32) -> Result<Status> {
    let text = slurp(pid, "status")?;
    let text = String::from_utf8_lossy(&text);
    // In one go: it is read while processes stand still.
    let mut found: [Option<&str>; FIELDS.len()] = [None; FIELDS.len()];
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        if let Some(place) = FIELDS.iter().position(|field| *field == name) {
            found[place].get_or_insert(value.trim());
        }
    }
    let field = |name: &str| FIELDS.iter().zip(found).find_map(|(field, value)| value.filter(|_| *field == name));
    parse_status(field).ok_or_else(|| odd(pid, "status"))
}

/// What is understood of /proc/PID/status.
const FIELDS: [&str; 21] = [
    "State", "Tgid", "PPid", "NSpid", "Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd",
    "SigBlk", "SigPnd", "ShdPnd", "SigIgn", "SigCgt", "Seccomp", "Umask", "Threads", "VmRSS",
];

fn parse_status<'a>(field: impl Fn(&str) -> Option<&'a str>) -> Option<Status> {
    fn numbers<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
        text.split_whitespace().map(|n| n.parse().ok()).collect()
    }
    let hex = |name| u64::from_str_radix(field(name)?, 16).ok();
    Some(Status {
        state: field("State")?.chars().next()?,
        tgid: field("Tgid")?.parse().ok()?,
        ppid: field("PPid")?.parse().ok()?,
        ns_tids: numbers(field("NSpid")?)?,
        uid: numbers(field("Uid")?)?.try_into().ok()?,
        gid: numbers(field("Gid")?)?.try_into().ok()?,
        groups: numbers(field("Groups")?)?,
        capabilities: hex("CapEff")?,
        permitted: hex("CapPrm")?,
        inheritable: hex("CapInh")?,
        ambient: hex("CapAmb")?,
        bounding: hex("CapBnd")?,
        blocked: hex("SigBlk")?,
        pending: hex("SigPnd")? | hex("ShdPnd")?,
        ignored: hex("SigIgn")?,
        seccomp: field("Seccomp").and_then(|s| s.parse().ok()).unwrap_or(0),
        caught: hex("SigCgt")?,
        // One that has ended has none.
        umask: field("Umask").and_then(|mask| u32::from_str_radix(mask, 8).ok()).unwrap_or(0),
        threads: field("Threads")?.parse().ok()?,
        rss_bytes: field("VmRSS").and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024,
    })
}

/// Tells whether a signal waits for a thread, or (not `for_thread`) for any thread of its process.
pub fn is_pending(tid: i32, for_thread: bool, signal: i32) -> bool {
    let Ok(text) = slurp(tid, "status") else { return false };
    let text = String::from_utf8_lossy(&text);
    let name = if for_thread { "SigPnd:" } else { "ShdPnd:" };
    let set = text.lines().find_map(|line| u64::from_str_radix(line.strip_prefix(name)?.trim(), 16).ok());
    (1..=64).contains(&signal) && set.is_some_and(|set| set & (1 << (signal - 1)) != 0)
}

/// Gives the thread's number in the innermost PID namespace that it lives in.
pub fn inner_tid(tid: i32) -> Result<i32> {
    status(tid)?.ns_tids.last().copied().ok_or_else(|| odd(tid, "status"))
}

/// User and system time, microseconds (/proc/PID/stat, ticks of 1/100 s), and the nice value.
pub fn times(pid: i32) -> Result<(u64, i32)> {
    let text = slurp(pid, "stat")?;
    let text = String::from_utf8_lossy(&text);
    // The command may hold anything; fields are counted from the last ')'.
    let fields: Vec<&str> =
        text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let number = |i: usize| fields.get(i).and_then(|f| f.parse::<i64>().ok()).ok_or_else(|| odd(pid, "stat"));
    Ok((((number(11)? + number(12)?) as u64) * 10_000, number(16)? as i32))
}

/// CPU time of a process, all threads together, those that have ended too, microseconds. Its clock
/// is exact, where /proc/PID/stat counts in ticks of 10 ms.
pub fn cpu_us(pid: i32) -> Result<u64> {
    /// What the scheduler counts (`CPUCLOCK_SCHED` in the kernel's
    /// include/linux/posix-timers_types.h; clock_getcpuclockid(3) makes the same).
    const SCHED: libc::clockid_t = 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    let done = unsafe { libc::clock_gettime((!pid << 3) | SCHED, &mut time) };
    crate::error::check(done, || format!("asking for the CPU time of {pid}"))?;
    Ok(time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000)
}

/// Tells what the kernel adds to the share of memory that a process has, thousandths, when it looks
/// for one to kill (oom_score_adj in proc_pid(5)). More is always allowed.
pub fn endanger(pid: i32, thousandths: i32) -> Result<()> {
    let file = path(pid, "oom_score_adj");
    std::fs::write(&file, thousandths.to_string()).map_err(|e| Error::new(format!("writing {}", file.display()), e))
}

/// Nice value of a thread.
pub fn nice(tid: i32) -> Result<i32> {
    // What the kernel itself gives, 1 to 40: other than that of libc it cannot be taken for an
    // error. SAFETY: numbers only.
    let given = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, tid) };
    crate::error::check(given, || format!("asking for the nice value of {tid}")).map(|given| 20 - given as i32)
}

/// User and system time of a process, ticks of 1/100 s.
pub fn ticks(pid: i32) -> Result<(u64, u64)> {
    let text = slurp(pid, "stat")?;
    let text = String::from_utf8_lossy(&text);
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut times = fields.split_whitespace().skip(11).map_while(|f| f.parse().ok());
    times.next().zip(times.next()).ok_or_else(|| odd(pid, "stat"))
}

/// When the process began, ticks since the machine did: with its number, which process it is.
pub fn began(pid: i32) -> Result<u64> {
    const BEGAN_AT: usize = 19;
    let text = slurp(pid, "stat")?;
    let text = String::from_utf8_lossy(&text);
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().nth(BEGAN_AT).and_then(|f| f.parse().ok()).ok_or_else(|| odd(pid, "stat"))
}

/// For how long a thread has been asleep in a call for which `matters` holds (number and
/// arguments): since it last ran, as the scheduler's clock says. `None` if it is in no such call,
/// or where the kernel does not tell (CONFIG_SCHED_DEBUG).
///
/// The clock is that of one processor, without what others stole from it (rq_clock_task in
/// kernel/sched/core.c): so the calling thread goes to that processor for the moment, and the
/// answer is never too long.
pub fn slept(tid: i32, matters: impl Fn(i64, &[u64; 6]) -> bool) -> Option<std::time::Duration> {
    let call = crate::waiting::Call::read(std::str::from_utf8(&slurp(tid, "syscall").ok()?).ok()?)?;
    matters(call.number, &call.args).then_some(())?;
    let stat = slurp(tid, "stat").ok()?;
    let stat = String::from_utf8_lossy(&stat);
    /// Fields of proc_pid_stat(5) behind the command before `processor`.
    const PROCESSOR: usize = 36;
    let processor = stat.rsplit_once(')')?.1.split_whitespace().nth(PROCESSOR)?.parse().ok()?;
    crate::processor::on(processor, || slept_here(tid))?
}

fn slept_here(tid: i32) -> Option<std::time::Duration> {
    let last_ran_ms = |path: &str| -> Option<f64> {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find(|l| l.starts_with("se.exec_start"))?;
        line.rsplit(':').next()?.trim().parse().ok()
    };
    // Zero: it was moved to another processor and has not run there (migrate_task_rq_fair in
    // kernel/sched/fair.c).
    let then = last_ran_ms(&format!("/proc/{tid}/sched")).filter(|ms| *ms > 0.0)?;
    // The own reading is renewed when the thread is put aside.
    std::thread::yield_now();
    let now = last_ran_ms("/proc/thread-self/sched")?;
    std::time::Duration::try_from_secs_f64((now - then).max(0.0) / 1e3).ok()
}

/// Bytes of memory that are no file's, at a glance: those that are there, and those that are
/// swapped out (proc_pid_status(5)).
pub fn anonymous_bytes(pid: i32) -> Result<u64> {
    let text = slurp(pid, "status")?;
    let text = String::from_utf8_lossy(&text);
    let own = |line: &str| {
        let kb = line.strip_prefix("RssAnon:").or_else(|| line.strip_prefix("VmSwap:"))?;
        kb.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Ok(text.lines().filter_map(own).sum::<u64>() << 10)
}

/// Argument strings, each ended by NUL.
pub fn arguments(pid: i32) -> Result<Vec<u8>> {
    slurp(pid, "cmdline")
}

/// Name of the program, at most 15 bytes.
pub fn comm(pid: i32) -> Result<Vec<u8>> {
    let mut name = slurp(pid, "comm")?;
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    Ok(name)
}

/// Tells what personality(2) says of a thread.
pub fn personality(tid: i32) -> Result<u32> {
    let text = slurp(tid, "personality")?;
    let text = String::from_utf8_lossy(&text);
    u32::from_str_radix(text.trim(), 16).map_err(|_| odd(tid, "personality"))
}

/// Tells where a link of /proc/PID points: `cwd`, `exe`, `fd/3`.
pub fn link(pid: i32, what: &str) -> Result<PathBuf> {
    std::fs::read_link(path(pid, what)).map_err(|e| Error::new(format!("reading /proc/{pid}/{what}"), e))
}

/// Numbers of its threads.
pub fn threads(pid: i32) -> Result<Vec<i32>> {
    numbers(pid, "task")
}

/// Gives the thread that traces this one.
pub fn tracer(tid: i32) -> Option<i32> {
    let text = slurp(tid, "status").ok()?;
    let text = String::from_utf8_lossy(&text);
    let tracer = text.lines().find_map(|l| l.strip_prefix("TracerPid:"))?.trim().parse().ok()?;
    (tracer != 0).then_some(tracer)
}

/// Tells whether a thread is one of this process.
pub fn is_own(tid: i32) -> bool {
    std::path::Path::new(&format!("/proc/self/task/{tid}")).exists()
}

/// Tells where the code lies that the kernel maps into every process.
pub fn vdso(pid: i32) -> Result<Option<u64>> {
    const AT_SYSINFO_EHDR: u64 = 33;
    let words = auxiliary(pid)?;
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).unwrap_or(0);
    let entry = words.chunks_exact(16).find(|entry| word(&entry[..8]) == AT_SYSINFO_EHDR);
    Ok(entry.map(|entry| word(&entry[8..])))
}

/// By which clock a timer of timer_create(2) goes.
pub fn timer_clock(pid: i32, timer: i32) -> Option<i32> {
    let text = String::from_utf8(slurp(pid, "timers").ok()?).ok()?;
    let mut lines = text.lines().skip_while(|l| l.strip_prefix("ID: ").is_none_or(|id| id.trim().parse() != Ok(timer)));
    lines.find_map(|line| line.strip_prefix("ClockID: ")?.trim().parse().ok())
}

/// By which clock a timerfd goes.
pub fn timerfd_clock(pid: i32, fd: i32) -> Option<i32> {
    fd_text(pid, fd).ok()?.lines().find_map(|line| line.strip_prefix("clockid: ")?.trim().parse().ok())
}

/// Gives the auxiliary vector.
pub fn auxiliary(pid: i32) -> Result<Vec<u8>> {
    slurp(pid, "auxv")
}

/// Returns one entry of the auxiliary vector (getauxval(3)).
///
/// # Errors
/// The process is gone, or was given no such entry.
pub fn auxiliary_entry(pid: i32, kind: u64) -> Result<u64> {
    let bytes = auxiliary(pid)?;
    let words = |pair: &[u8]| [0, 8].map(|at| pair[at..at + 8].try_into().map_or(0, u64::from_ne_bytes));
    let found = bytes.chunks_exact(16).map(words).find(|[key, _]| *key == kind);
    found.map(|[_, value]| value).ok_or_else(|| {
        Error::new(
            format!("looking for entry {kind} of the auxiliary vector of {pid}"),
            std::io::Error::from(std::io::ErrorKind::NotFound),
        )
    })
}

/// Where things lie in memory: the addresses that /proc/PID/stat says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in proc_pid_stat(5)")]
pub struct Layout {
    pub start_code: u64,
    pub end_code: u64,
    pub start_stack: u64,
    pub start_data: u64,
    pub end_data: u64,
    pub start_brk: u64,
    pub arg_start: u64,
    pub arg_end: u64,
    pub env_start: u64,
    pub env_end: u64,
}

/// Reads the addresses of /proc/PID/stat.
pub fn layout(pid: i32) -> Result<Layout> {
    let text = slurp(pid, "stat")?;
    let text = String::from_utf8_lossy(&text);
    let fields: Vec<&str> =
        text.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    // Fields 26 to 28 and 45 to 51; those behind the command begin with the third.
    let number = |field: usize| fields.get(field - 3).and_then(|f| f.parse().ok()).ok_or_else(|| odd(pid, "stat"));
    Ok(Layout {
        start_code: number(26)?,
        end_code: number(27)?,
        start_stack: number(28)?,
        start_data: number(45)?,
        end_data: number(46)?,
        start_brk: number(47)?,
        arg_start: number(48)?,
        arg_end: number(49)?,
        env_start: number(50)?,
        env_end: number(51)?,
    })
}

/// Numbers of the open descriptors.
pub fn descriptors(pid: i32) -> Result<Vec<i32>> {
    numbers(pid, "fd")
}

fn numbers(pid: i32, directory: &str) -> Result<Vec<i32>> {
    let failed = |e| Error::new(format!("listing /proc/{pid}/{directory}"), e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path(pid, directory)).map_err(failed)? {
        found.extend(entry.map_err(failed)?.file_name().to_str().and_then(|n| n.parse::<i32>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// What /proc/PID/fdinfo/FD says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdInfo {
    /// O_ flags, O_CLOEXEC among them.
    pub flags: i32,
    /// The offset in the file, bytes.
    pub offset: u64,
    /// Its process holds a lock on it.
    pub locked: bool,
    /// Number of the mount.
    pub mount_id: u64,
    /// Inode number; 0 on kernels that do not say it.
    pub inode: u64,
}

/// All that /proc/PID/fdinfo/FD says.
pub fn fd_text(pid: i32, fd: i32) -> Result<String> {
    Ok(String::from_utf8_lossy(&slurp(pid, &format!("fdinfo/{fd}"))?).into_owned())
}

/// Reads the file /proc/PID/fdinfo/FD.
pub fn fd_info(pid: i32, fd: i32) -> Result<FdInfo> {
    let what = format!("fdinfo/{fd}");
    let text = slurp(pid, &what)?;
    let text = String::from_utf8_lossy(&text);
    let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let parse = || {
        Some(FdInfo {
            flags: i32::from_str_radix(field("flags")?, 8).ok()?,
            offset: field("pos")?.parse().ok()?,
            locked: field("lock").is_some(),
            mount_id: field("mnt_id")?.parse().ok()?,
            inode: field("ino").and_then(|i| i.parse().ok()).unwrap_or(0),
        })
    };
    parse().ok_or_else(|| odd(pid, &what))
}

/// By default the signal ends a process with a core (signal(7)).
pub fn dumps_core(signal: i32) -> bool {
    matches!(
        signal,
        libc::SIGQUIT
            | libc::SIGILL
            | libc::SIGTRAP
            | libc::SIGABRT
            | libc::SIGBUS
            | libc::SIGFPE
            | libc::SIGSEGV
            | libc::SIGXCPU
            | libc::SIGXFSZ
            | libc::SIGSYS
    )
}

/// Tells whether two descriptors of a process are one open file (kcmp(2)).
pub fn same_file(pid: i32, a: i32, b: i32) -> bool {
    one_file(ProcessFd { pid, fd: a }, ProcessFd { pid, fd: b })
}

/// A descriptor of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFd {
    /// The process, in the caller's namespace.
    pub pid: i32,
    /// Number of the descriptor.
    pub fd: i32,
}

/// Tells whether two descriptors are one open file (kcmp(2)).
pub fn one_file(a: ProcessFd, b: ProcessFd) -> bool {
    const KCMP_FILE: i32 = 0;
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, a.pid, b.pid, KCMP_FILE, a.fd, b.fd) == 0 }
}

/// Tells whether two processes have one memory (CLONE_VM).
pub fn one_memory(a: i32, b: i32) -> bool {
    const KCMP_VM: i32 = 1;
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_VM, 0, 0) == 0 }
}

/// Gives the kernel's own order of the open files behind two descriptors of a process (kcmp(2)):
/// equal if they are one.
pub fn order_of_files(pid: i32, a: i32, b: i32) -> std::cmp::Ordering {
    const KCMP_FILE: i32 = 0;
    // SAFETY: numbers only.
    match unsafe { libc::syscall(libc::SYS_kcmp, pid, pid, KCMP_FILE, a, b) } {
        0 => std::cmp::Ordering::Equal,
        1 => std::cmp::Ordering::Less,
        _ => std::cmp::Ordering::Greater,
    }
}

/// All processes that can be seen.
pub fn all() -> Result<Vec<i32>> {
    let failed = |e| Error::new("listing /proc", e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").map_err(failed)? {
        found.extend(entry.map_err(failed)?.file_name().to_str().and_then(|n| n.parse::<i32>().ok()));
    }
    found.sort_unstable();
    Ok(found)
}

/// Tells whether a descriptor number is the same open file in two processes (kcmp(2)).
pub fn same_in_both(a: i32, b: i32, fd: i32) -> bool {
    const KCMP_FILE: i32 = 0;
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_FILE, fd, fd) == 0 }
}

/// Gives the PID of a process held by a pidfd of the caller, in the caller's namespace.
pub fn pid_of(pidfd: std::os::fd::RawFd) -> Result<i32> {
    let what = format!("fdinfo/{pidfd}");
    let me = std::process::id() as i32;
    let text = slurp(me, &what)?;
    let text = String::from_utf8_lossy(&text);
    text.lines().find_map(|l| l.strip_prefix("Pid:")?.trim().parse().ok()).ok_or_else(|| odd(me, &what))
}

/// Number of resource limits.
const LIMITS: usize = 16;

/// Soft and hard limits by number (getrlimit(2)), `u64::MAX` for none.
pub fn limits(pid: i32) -> Result<Vec<(u64, u64)>> {
    match limits_by_call(pid) {
        // Another user's limits ask for CAP_SYS_RESOURCE, which root lacks in many containers; the
        // file does not.
        Err(_) => limits::by_file(pid),
        found => found,
    }
}

fn limits_by_call(pid: i32) -> Result<Vec<(u64, u64)>> {
    let both = |limit: libc::rlimit64| (limit.rlim_cur, limit.rlim_max);
    (0..LIMITS as u32).map(|which| limits::get(pid, which).map(both)).collect()
}

/// Is process `pid` on its way out? The first process of a namespace waits there for all others to
/// end.
pub fn is_exiting(pid: i32) -> bool {
    const PF_EXITING: u64 = 0x4;
    let Ok(stat) = slurp(pid, "stat") else { return true };
    // Behind the name, in parentheses, come the state (field 3) and so on; the flags are field 9.
    let text = String::from_utf8_lossy(&stat).into_owned();
    let flags = text.rsplit_once(") ").and_then(|(_, fields)| fields.split(' ').nth(6)?.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & PF_EXITING != 0)
}

#[cfg(test)]
mod tests;
