//! From a fresh child of the porter to the program: descriptors, directory, limits, identity,
//! filter, exec.

use crate::sandbox::ids;
use crate::sandbox::porter::setup::View;
use crate::sandbox::porter::{Notice, hear, setup, tell};
use os::namespace::CapabilitySets;
use os::{Error, Result, namespace, seccomp};
use room_protocol::message::{Arrival, Capabilities, Descriptor, Directory, Place, StandinId};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::CString;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;

/// A clone call with this word as its second argument is no clone: the child speaks to its tracer,
/// which is stopped at it by the filter.
pub const MARK_WORD: u64 = 0x7465_726e_2d62_6f64;
/// First argument of a mark: the filter is there, and the third argument is its listener's number.
pub const MARK_FILTERED: u64 = 1;
/// First argument of a mark: exec failed, and the third argument is the error number.
pub const MARK_FAILED: u64 = 2;

/// Fourth argument of a mark: the number of the node's root directory (of its mount namespace,
/// where root of home is the machine's own), or this.
pub const NO_NODE: u64 = u64::MAX;

/// In rax at the trap of a body that is ready to be rebuilt from an image.
pub const MARK_EMPTY: u64 = MARK_WORD ^ 1;

/// What a guest of user 0 may do with files inside the room's user namespace, and with its own ids;
/// nothing else (capabilities(7): CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, KILL,
/// SETGID, SETUID, SETFCAP not).
pub const KEPT_CAPABILITIES: u64 = 0b1111_1111;

/// Those of home's capabilities that guests of this room keep: all, where root of home is the
/// machine's own.
pub fn kept_capabilities() -> u64 {
    if ids::are_the_machines() { u64::MAX } else { KEPT_CAPABILITIES }
}

/// Bit of CAP_IPC_LOCK (capabilities(7)).
pub const IPC_LOCK: u64 = 1 << 14;
/// Bit of CAP_SYS_CHROOT. Programs in node-local mode have it until they have entered the node;
/// their filter refuses chroot(2) itself to all but the tracer.
pub const SYS_CHROOT: u64 = 1 << 18;
/// Bit of CAP_SYS_NICE.
pub const SYS_NICE: u64 = 1 << 23;

/// Waits for what it is to be, and becomes the program; never returns to the porter's loop.
pub fn wait(pid: i32, fds: &[OwnedFd], room: &setup::Room, notices: BorrowedFd<'_>) -> ! {
    let done = match receive(fds) {
        Ok(Some(place)) => become_program(&place, room),
        // It is not placed after all.
        Ok(None) => Ok(()),
        Err(e) => Err(e),
    };
    if let Err(e) = done {
        let notice = Notice::BodyFailed { pid, errno: e.errno(), what: e.to_string() };
        let _ = tell(notices, &notice, &[]);
    }
    // SAFETY: ends this process without running the porter's exit handlers.
    unsafe { libc::_exit(125) }
}

fn receive(fds: &[OwnedFd]) -> Result<Option<Place>> {
    let failed = |e: std::io::Error| Error::new("reading what is to be placed", e);
    let invalid = || failed(std::io::ErrorKind::InvalidInput.into());
    let socket = fds.first().ok_or_else(invalid)?;
    let Some((_, packed)) = hear::<i32>(socket.as_fd())? else { return Ok(None) };
    let mut file = std::fs::File::from(packed.into_iter().next().ok_or_else(invalid)?);
    let mut bytes = Vec::new();
    file.rewind().map_err(failed)?;
    file.read_to_end(&mut bytes).map_err(failed)?;
    postcard::from_bytes(&bytes).map(Some).map_err(|e| failed(std::io::Error::other(e)))
}

fn become_program(place: &Place, room: &setup::Room) -> Result<()> {
    if let Some(arrival) = &place.arrival {
        return become_empty(place, arrival, room);
    }
    let program = Strings::of(place)?;
    default_signals(place.ignored);
    open_standins(place, room)?;
    set_limits(&place.limits, &place.credentials.capabilities);
    become_who(place, room.node.is_some())?;
    open_directories(&place.directories);
    set_mask(place.blocked);
    // Last: some of it would change what is mapped here.
    // SAFETY: a number only.
    unsafe { libc::personality(libc::c_ulong::from(place.personality)) };
    if place.home_devices {
        seccomp::install_more(&systable::filter::devices().each_ref().map(instruction))?;
    }
    let node = room.node.as_ref().map(|node| inherited(node.as_fd(), &place.descriptors)).transpose()?;
    let listener = seccomp::install(filter(room.view))?;
    mark(Mark { what: MARK_FILTERED, value: listener.as_raw_fd() as u64, node });
    drop(listener);
    // SAFETY: arrays of live strings that end with null.
    let errno = unsafe {
        libc::execve(program.path.as_ptr(), program.argv.as_ptr(), program.envp.as_ptr());
        *libc::__errno_location()
    };
    mark(Mark { what: MARK_FAILED, value: errno as u64, node: None });
    Ok(())
}

/// `enters_node`: the program is taken to the node's own files as it begins.
fn become_who(place: &Place, enters_node: bool) -> Result<()> {
    let more = if enters_node { SYS_CHROOT } else { 0 };
    // SAFETY: plain numbers.
    unsafe {
        libc::umask(place.umask);
        libc::setpriority(libc::PRIO_PROCESS, 0, place.nice);
    }
    namespace::keep_capabilities(kept_capabilities() | more);
    // What a change of user does to them home's kernel says (`warden/tracer/rights.rs`).
    namespace::keep_capabilities_of_others()?;
    let who = &place.credentials;
    // The room's files are served with the rights that the deputy has at home: a group that has no
    // id here is no loss.
    let groups: Vec<u32> = who.groups.iter().copied().filter(|group| ids::has(*group)).collect();
    let [uid, gid] = [who.uid, who.gid].map(|[real, effective, saved, _]| [real, effective, saved]);
    namespace::become_user(uid, gid, &groups)?;
    namespace::touch_files_as(who.uid[3], who.gid[3]);
    take_capabilities(place, more)?;
    std::env::set_current_dir(std::ffi::OsStr::from_bytes(&place.cwd))
        .map_err(|e| Error::new(format!("entering {}", String::from_utf8_lossy(&place.cwd)), e))?;
    seccomp::no_new_privileges()
}

/// Those that the program has at home. What is moved here may still take those that it needs until
/// its image is in place. `more` the program has, too, until the tracer takes it away.
fn take_capabilities(place: &Place, more: u64) -> Result<()> {
    let (own, kept) = (place.credentials.capabilities, kept_capabilities());
    let permitted = match place.arrival {
        Some(_) => kept | namespace::CHECKPOINT_RESTORE,
        None => own.permitted & kept,
    };
    let effective = own.effective & own.permitted & kept;
    let inheritable = own.inheritable & kept;
    let ambient = own.ambient & inheritable & own.permitted;
    let [permitted, effective, inheritable] = [permitted, effective, inheritable].map(|set| set | more);
    namespace::take_capabilities(CapabilitySets { permitted, effective, inheritable }, ambient | more)
}

/// Opens what a process that is moved here needs, and waits in a trap for the tracer, which puts
/// its image in the place of all that is here. The filter comes last.
fn become_empty(place: &Place, arrival: &Arrival, room: &setup::Room) -> Result<()> {
    let mut limits = place.limits.clone();
    // The tracer sets that limit, when all descriptors are at their numbers.
    if let Some(limit) = limits.get_mut(libc::RLIMIT_NOFILE as usize) {
        *limit = (u64::MAX, u64::MAX);
    }
    set_limits(&limits, &place.credentials.capabilities);
    open_standins(place, room)?;
    become_who(place, false)?;
    open_files(arrival)?;
    // To tell the kernel which file the program is.
    namespace::take_checkpoint_restore(KEPT_CAPABILITIES)?;
    // SAFETY: the tracer sees the trap, and this code never runs again.
    unsafe { std::arch::asm!("int3", in("rax") MARK_EMPTY) };
    Err(Error::new("waiting for an image", std::io::Error::from_raw_os_error(libc::ECANCELED)))
}

fn open_files(arrival: &Arrival) -> Result<()> {
    for (number, file) in (arrival.files_at..).zip(&arrival.files) {
        let doing = || format!("opening {}", String::from_utf8_lossy(&file.path));
        let path = CString::new(file.path.as_slice()).map_err(|e| Error::new(doing(), std::io::Error::other(e)))?;
        // SAFETY: a live string; the new descriptor is moved to its number.
        unsafe {
            let fd = os_check(libc::open(path.as_ptr(), file.flags | libc::O_CLOEXEC | libc::O_NOCTTY), &doing())?;
            if fd != number {
                os_check(libc::dup3(fd, number, libc::O_CLOEXEC), &doing())?;
                libc::close(fd);
            }
        }
        // SAFETY: an open descriptor, for as long as that is looked at.
        let found = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(number) });
        if file.inode != 0 && !found.is_ok_and(|stat| stat.st_ino == file.inode) {
            let doing = format!("{}, which is another file by now", doing());
            return Err(Error::new(doing, std::io::Error::from_raw_os_error(libc::ESTALE)));
        }
    }
    Ok(())
}

/// With the program's rights. One that it may not open any more it does not have: what stood for it
/// would be no directory.
fn open_directories(directories: &[Directory]) {
    for directory in directories {
        let Ok(path) = CString::new(directory.path.as_slice()) else { continue };
        // SAFETY: a live string; what is open under that number is the porter's, and would be
        // closed.
        unsafe {
            let fd = libc::open(path.as_ptr(), directory.flags | libc::O_DIRECTORY | libc::O_CLOEXEC);
            if fd < 0 {
                continue;
            }
            libc::lseek(fd, directory.offset as libc::off_t, libc::SEEK_SET);
            if fd == directory.fd {
                libc::fcntl(fd, libc::F_SETFD, 0);
            } else {
                libc::dup2(fd, directory.fd);
                libc::close(fd);
            }
        }
    }
}

/// A word of a body to its tracer.
struct Mark {
    what: u64,
    value: u64,
    /// The number of the descriptor of the node's root directory.
    node: Option<RawFd>,
}

/// Stops in the tracer with a word.
fn mark(mark: Mark) {
    let node = mark.node.map_or(NO_NODE, |fd| fd as u64);
    // SAFETY: the tracer never lets this call through.
    unsafe { libc::syscall(libc::SYS_clone, mark.what, MARK_WORD, mark.value, node, 0) };
}

/// Makes a duplicate of a descriptor that the program inherits, behind those that home gave it.
fn inherited(fd: BorrowedFd<'_>, given: &[Descriptor]) -> Result<RawFd> {
    let behind = given.iter().map(|d| d.fd + 1).max().unwrap_or(0).max(LOWEST_INHERITED);
    // SAFETY: makes a descriptor, which nothing here closes.
    os_check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD, behind) }, "handing the node's files on")
}

/// Programs rarely have so many descriptors.
const LOWEST_INHERITED: RawFd = 64;

/// The guests' filter. Making it takes longer than installing it, so it is made once, in the porter
/// before it forks.
///
pub fn filter(view: View) -> &'static [seccomp::Instruction] {
    static PLAIN: LazyLock<Vec<seccomp::Instruction>> = LazyLock::new(|| {
        let program = systable::filter::program();
        program.insns().iter().map(instruction).collect()
    });
    static WALL: LazyLock<Vec<seccomp::Instruction>> =
        LazyLock::new(|| systable::filter::clocks().iter().map(instruction).chain(PLAIN.iter().copied()).collect());
    static NODE_LOCAL: LazyLock<Vec<seccomp::Instruction>> =
        LazyLock::new(|| systable::filter::node_local().insns().iter().map(instruction).collect());
    match view {
        View::Home => &PLAIN,
        View::HomeAndWall => &WALL,
        View::Processes => &NODE_LOCAL,
    }
}

fn instruction(i: &systable::filter::Insn) -> seccomp::Instruction {
    seccomp::Instruction { code: i.code, jt: i.jt, jf: i.jf, k: i.k }
}

struct Strings {
    path: CString,
    argv: Vec<*const libc::c_char>,
    envp: Vec<*const libc::c_char>,
    _owned: Vec<CString>,
}

impl Strings {
    fn of(place: &Place) -> Result<Strings> {
        let c = |bytes: &Vec<u8>| {
            CString::new(bytes.as_slice())
                .map_err(|_| Error::new("passing arguments", std::io::Error::from_raw_os_error(libc::EINVAL)))
        };
        let program = &place.program;
        let argv = program.argv.iter().map(c).collect::<Result<Vec<_>>>()?;
        let envp = program.envp.iter().map(c).collect::<Result<Vec<_>>>()?;
        let pointers = |list: &[CString]| list.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect();
        let (argv_pointers, envp_pointers) = (pointers(&argv), pointers(&envp));
        Ok(Strings {
            path: c(&program.path)?,
            argv: argv_pointers,
            envp: envp_pointers,
            _owned: argv.into_iter().chain(envp).collect(),
        })
    }
}

/// What exec would leave, as far as the porter does not have it already: ignored what the home's
/// process ignores.
fn default_signals(ignored: u64) {
    set_action(libc::SIGPIPE, libc::SIG_DFL);
    (1..=64).filter(|signal| ignored & (1 << (signal - 1)) != 0).for_each(|signal| set_action(signal, libc::SIG_IGN));
}

/// For the porter: default for all signals but SIGPIPE, which it ignores.
pub fn default_signals_but_pipe() {
    (1..=64).filter(|signal| *signal != libc::SIGPIPE).for_each(|signal| set_action(signal, libc::SIG_DFL));
    set_action(libc::SIGPIPE, libc::SIG_IGN);
}

fn set_action(signal: i32, action: libc::sighandler_t) {
    // SAFETY: no handler is installed; libc refuses the two signals that it keeps for itself, which
    // have no handler here.
    unsafe { libc::signal(signal, action) };
}

fn set_mask(blocked: u64) {
    // SAFETY: eight bytes of mask, as the kernel wants them.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &blocked, 0, 8) };
}

/// The home's limits as far as this machine allows them. That on processes holds at home, and so
/// does that on locked memory for those whom it does not bind there (CAP_IPC_LOCK): they get as
/// much as this machine gives. Home says what these two are.
fn set_limits(limits: &[(u64, u64)], rights: &Capabilities) {
    const UNLIMITED: (u64, u64) = (u64::MAX, u64::MAX);
    for (which, &limit) in (0u32..).zip(limits) {
        let (soft, hard) = match which {
            libc::RLIMIT_NPROC => UNLIMITED,
            libc::RLIMIT_MEMLOCK if rights.effective & IPC_LOCK != 0 => UNLIMITED,
            libc::RLIMIT_MEMLOCK => (limit.0, u64::MAX),
            _ => limit,
        };
        // SAFETY: all zero is a valid limit; the kernel reads and writes live limits.
        unsafe {
            let mut here: libc::rlimit64 = std::mem::zeroed();
            if libc::getrlimit64(which, &mut here) == 0 {
                let hard = hard.min(here.rlim_max);
                libc::setrlimit64(which, &libc::rlimit64 { rlim_cur: soft.min(hard), rlim_max: hard });
            }
        }
    }
}

/// Opens the stand-ins and puts them at the home's numbers; everything else of the porter's is
/// closed or closes at exec.
fn open_standins(place: &Place, room: &setup::Room) -> Result<()> {
    /// Below it lies what the porter has open.
    const LOWEST: RawFd = 64;
    let numbers = || place.descriptors.iter().map(|d| d.fd);
    let base = match &place.arrival {
        Some(arrival) => {
            let files = (arrival.files_at..).take(arrival.files.len());
            checkpoint::free_numbers_from(LOWEST, numbers().chain(files), place.descriptors.len() + 1)
        }
        None => numbers().map(|fd| fd + 1).max().unwrap_or(0).max(LOWEST),
    };
    let directory = move_up(room.standins.as_fd(), base)?;
    let mut opened: HashMap<StandinId, OwnedFd> = HashMap::new();
    for descriptor in &place.descriptors {
        if let Entry::Vacant(place) = opened.entry(descriptor.standin) {
            let file = open_standin(directory.as_fd(), descriptor.standin, descriptor.flags)?;
            if descriptor.standin.is_file() {
                let at = rustix::fs::SeekFrom::Start(descriptor.offset);
                rustix::fs::seek(&file, at)
                    .map_err(|e| Error::new("setting a file's offset", std::io::Error::from(e)))?;
            }
            place.insert(move_up(file.as_fd(), base)?);
        }
    }
    if place.arrival.is_none() {
        close_at_exec(base);
    }
    for descriptor in &place.descriptors {
        if let Some(file) = opened.get(&descriptor.standin) {
            // SAFETY: numbers of descriptors only.
            os_check(unsafe { libc::dup2(file.as_raw_fd(), descriptor.fd) }, "placing a descriptor")?;
        }
    }
    Ok(())
}

/// Numbers below `base` are the program's: what the porter has there closes at exec, and dup2
/// replaces what is in the way.
fn close_at_exec(base: RawFd) {
    // SAFETY: sets flags only.
    unsafe { libc::syscall(libc::SYS_close_range, 0, base - 1, libc::CLOSE_RANGE_CLOEXEC) };
}

fn move_up(fd: BorrowedFd<'_>, base: RawFd) -> Result<OwnedFd> {
    // SAFETY: returns a new descriptor, which is ours alone.
    unsafe {
        let moved = os_check(libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, base), "moving a descriptor")?;
        Ok(OwnedFd::from_raw_fd(moved))
    }
}

/// Opens a stand-in, with these of its open file's flags that the kernel must know here.
pub fn open_standin(directory: BorrowedFd<'_>, standin: StandinId, flags: i32) -> Result<OwnedFd> {
    let name =
        CString::new(standin.0.to_string()).map_err(|e| Error::new("naming a stand-in", std::io::Error::other(e)))?;
    let wanted = flags & (libc::O_ACCMODE | standin.flags_there());
    // SAFETY: a live string; returns a new descriptor.
    unsafe {
        let fd = os_check(
            libc::openat(directory.as_raw_fd(), name.as_ptr(), wanted | libc::O_CLOEXEC),
            "opening a stand-in",
        )?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn os_check(result: i32, doing: &str) -> Result<i32> {
    if result < 0 { Err(Error::last(doing)) } else { Ok(result) }
}
