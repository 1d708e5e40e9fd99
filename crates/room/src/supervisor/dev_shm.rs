//! Files of home's /dev/shm that guests have mapped, shared: home holds them for this room
//! ([`homefs::server`]), as long as nobody there opens them.

use crate::state::home_mounts::{HomeFiles, without_end};
use crate::state::shared::Shared;
use os::areas::Area;
use os::pidfd::PidFd;
use os::ptrace::HostTid;
use room_protocol::ToHome;
use room_protocol::message::Errand;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Whether an area shows such a file.
pub fn shows(area: &Area, home: &HomeFiles) -> bool {
    area.shared && area.inode != 0 && home.memory.is_some_and(|memory| memory.device == area.device)
}

/// The number of the inode of home's that a descriptor is open on, if it is such a file.
pub fn inode(host: HostTid, fd: i32) -> Option<u64> {
    let memory = HomeFiles::of(host).ok()?.memory?;
    let info = os::process::fd_info(host.0, fd).ok()?;
    (info.mount_id == memory.mount).then_some(info.inode)
}

/// How home opens the file that an area shows: as its mapping may be used.
pub fn access(area: &Area) -> i32 {
    if area.writable || area.has(b"mw") { libc::O_RDWR } else { libc::O_RDONLY }
}

/// How long a call that home has allowed may take until its mapping is there.
const SETTLES_WITHIN: Duration = Duration::from_millis(50);

/// Somebody at home waits for a file: those who have it mapped go home, where they open it too.
pub fn give_up(room: &Arc<Shared>, inode: u64) {
    let here = room.clone();
    // To list a guest's memory may take as long as a page that it waits for.
    let looks = move || {
        let mut mapped = mapped_by(&here, inode);
        if mapped.is_empty() {
            std::thread::sleep(SETTLES_WITHIN);
            mapped = mapped_by(&here, inode);
        }
        if mapped.is_empty() && write_back(&here, inode) {
            here.tell(&ToHome::Yielded { inode });
        }
        for (pid, name) in mapped {
            let errand = Errand::call_on(libc::SYS_mmap as u32, &name);
            here.tell(&ToHome::GoesHome { pid, first: None, errand });
        }
    };
    if let Err(e) = std::thread::Builder::new().name("gives-up".into()).spawn(looks) {
        tracing::warn!("no thread to look for guests that have a file of home's mapped: {e}");
    }
}

fn guests(room: &Shared) -> Vec<(i32, HostTid)> {
    let guests = room.guests();
    guests.pids().into_iter().filter_map(|pid| Some((pid, guests.host(pid)?))).collect()
}

/// Processes that have a file mapped, and its name.
fn mapped_by(room: &Shared, inode: u64) -> Vec<(i32, Vec<u8>)> {
    guests(room).into_iter().filter_map(|(pid, host)| Some((pid, name(host, inode)?))).collect()
}

/// Writes back what those have stored who had the file mapped, and may just end. `false`: nobody
/// has it open any more, and home hears that with its last page.
fn write_back(room: &Shared, inode: u64) -> bool {
    let opened = |host: HostTid| {
        let memory = HomeFiles::of(host).ok()?.memory?;
        let is_it = |fd: &i32| {
            let info = os::process::fd_info(host.0, *fd);
            info.is_ok_and(|info| (info.mount_id, info.inode) == (memory.mount, inode))
        };
        let fd = os::process::descriptors(host.0).ok()?.into_iter().find(is_it)?;
        PidFd::open(host.0).and_then(|pidfd| pidfd.get_fd(fd)).ok()
    };
    let Some(file) = guests(room).into_iter().find_map(|(_, host)| opened(host)) else { return false };
    // The warden is no user of the room: it may make no request of home's (fsync(2)), but have
    // pages written, and wait for those that others write.
    let how = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: numbers only.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, how) };
    if done < 0 {
        let e = std::io::Error::last_os_error();
        tracing::warn!("a file of /dev/shm cannot be written back, so who waits for it is refused: {e}");
    }
    done == 0
}

/// The file's name, if this process has it mapped.
fn name(host: HostTid, inode: u64) -> Option<Vec<u8>> {
    let home = HomeFiles::of(host).ok()?;
    let areas = os::areas::read(host.0).ok()?;
    let area = areas.into_iter().find(|area| area.inode == inode && shows(area, &home))?;
    Some(without_end(PathBuf::from(OsString::from_vec(area.name))).into_os_string().into_vec())
}

/// Where a process has such files mapped.
pub fn mapped(host: HostTid) -> Result<Vec<(u64, u64)>, checkpoint::BodyError> {
    let home = HomeFiles::of(host)?;
    if home.memory.is_none() {
        return Ok(Vec::new());
    }
    let areas = os::areas::read(host.0)?;
    Ok(areas.iter().filter(|area| shows(area, &home)).map(|area| (area.start, area.end)).collect())
}
