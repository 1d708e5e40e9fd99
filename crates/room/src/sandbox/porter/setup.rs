//! Making the room look like the home.

use crate::sandbox::porter::{HIDDEN_PROC, Setup};
use os::{Error, Result, mount, namespace};
use room_protocol::message::Mount;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the porter keeps of a room that is set up.
pub struct Room {
    /// Root directory of the stand-ins' file system, which is mounted on /dev.
    pub standins: OwnedFd,
    /// /proc/sys/kernel/ns_last_pid of the room.
    pub last_pid: File,
    /// The calls of its guests that tern sees.
    pub view: View,
    /// The machine's own root directory, if guests use its files.
    pub node: Option<OwnedFd>,
}

/// The calls of guests that their filter lets tern see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Those that home must answer.
    Home,
    /// The same, and readings of the wall clock: guests are shown home's, not this machine's.
    HomeAndWall,
    /// Those about processes (node-local mode).
    Processes,
}

/// Devices that are the node's own: what is read from or written to them is the same everywhere.
const OWN_DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Mounts everything and enters it. The second part of the result says what is missing in the room,
/// and why.
pub fn make(setup: &Setup, node: Option<OwnedFd>) -> Result<(Room, Vec<String>)> {
    // Ids of the new user namespace, before anything is touched through FUSE: an unmapped id would
    // be EOVERFLOW there.
    namespace::become_user([0; 3], [0; 3], &[])?;
    // Taking ids made /proc/self the machine's root's; the offsets of time are written there below.
    namespace::set_dumpable(true)?;
    mount::make_private()?;
    let [devices @ .., proc_device, standins_device] = setup.devices.as_slice() else {
        return Err(odd("no FUSE device"));
    };
    let root = ["/tmp", "/mnt", "/run"]
        .map(PathBuf::from)
        .into_iter()
        .find(|p| p.is_dir())
        .ok_or_else(|| odd("no directory to mount on"))?;
    let mut missing = Vec::new();
    let is_memory = |place: &&Mount| place.path == room_protocol::SHARED_MEMORY.as_bytes();
    let memory = setup.home.mounts.iter().zip(devices).find(|(place, _)| is_memory(place));
    for (place, device) in setup.home.mounts.iter().zip(devices).filter(|(place, _)| !is_memory(place)) {
        let target = below(&root, &place.path);
        let flags = libc::MS_NODEV | libc::MS_NOSUID | if place.read_only { libc::MS_RDONLY } else { 0 };
        let done = mount::mount("tern", &target, "fuse", flags, &mount::fuse_options(*device, &target));
        match done {
            Err(e) if place.path != b"/" => missing.push(e.to_string()),
            other => other?,
        }
    }
    // SAFETY: this process opened it and keeps it open until below.
    let device = unsafe { BorrowedFd::borrow_raw(*standins_device) };
    let standins = mount::fuse_detached(device, "tern-dev")?;
    let own_dev =
        own_dev(&root, standins.as_fd()).and_then(|()| shared_memory(&root, memory.map(|(_, device)| *device)));
    // The kernel shows the hardware only to the owner of the network that /sys shows, too.
    let sys = if node.is_some() { Ok(()) } else { own_sys(&root) };
    for done in [home_proc(&root, *proc_device), own_dev, sys] {
        missing.extend(done.err().map(|e| e.to_string()));
    }
    mount::enter_root(&root)?;
    for device in &setup.devices {
        // SAFETY: the numbers are the porter's own copies; the warden serves the connections.
        unsafe { libc::close(*device) };
    }
    if node.is_none() {
        namespace::set_names(&setup.home.hostname, &setup.home.domainname)?;
    }
    namespace::shift_time(
        setup.home.monotonic_ns - setup.here_monotonic_ns,
        setup.home.boottime_ns - setup.here_boottime_ns,
    )?;
    let last_pid = File::options()
        .write(true)
        .open(Path::new("/proc").join(HIDDEN_PROC).join("sys/kernel/ns_last_pid"))
        .map_err(|e| Error::new("opening ns_last_pid", e))?;
    // Guests of user 0 shall not look into this process.
    namespace::set_dumpable(false)?;
    let view = match (&node, setup.wall) {
        (Some(_), _) => View::Processes,
        (None, true) => View::HomeAndWall,
        (None, false) => View::Home,
    };
    Ok((Room { standins, last_pid, view, node }, missing))
}

fn odd(what: &str) -> Error {
    Error::new(what, std::io::Error::from_raw_os_error(libc::EINVAL))
}

fn below(root: &Path, absolute: &[u8]) -> PathBuf {
    let relative = absolute.strip_prefix(b"/").unwrap_or(absolute);
    root.join(std::ffi::OsStr::from_bytes(relative))
}

/// The home's /proc, and in it, unseen, the room's own: its processes, under the numbers that they
/// have at home.
fn home_proc(root: &Path, device: i32) -> Result<()> {
    let place = root.join("proc");
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    mount::mount("proc", &place, "fuse", flags, &mount::fuse_options(device, &place))?;
    mount::mount("proc", &place.join(HIDDEN_PROC), "proc", flags, "")
}

/// The hosting machine's hardware: what runs here computes here.
fn own_sys(root: &Path) -> Result<()> {
    mount::mount(
        "sysfs",
        &root.join("sys"),
        "sysfs",
        libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC | libc::MS_RDONLY,
        "",
    )
}

/// The home's devices, and over them what is the room's own.
fn own_dev(root: &Path, standins: BorrowedFd<'_>) -> Result<()> {
    let dev = root.join("dev");
    mount::attach(standins, &dev)?;
    for name in OWN_DEVICES {
        mount::bind(&Path::new("/dev").join(name), &dev.join(name))?;
    }
    Ok(())
}

/// The home's files that are there to be mapped; if home has no place of its own for them, the room
/// has.
fn shared_memory(root: &Path, device: Option<i32>) -> Result<()> {
    let (place, flags) = (below(root, room_protocol::SHARED_MEMORY.as_bytes()), libc::MS_NOSUID | libc::MS_NODEV);
    match device {
        Some(device) => mount::mount("tern", &place, "fuse", flags, &mount::fuse_options(device, &place)),
        None => mount::mount("tern-shm", &place, "tmpfs", flags | libc::MS_NOEXEC, "mode=1777"),
    }
}
