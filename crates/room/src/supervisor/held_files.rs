//! Files of home's that guests have mapped, shared and writable: home holds them for this room
//! ([`homefs::server`]), as long as no process there opens them. Of the files of /dev/shm, all
//! shared mappings count.

use crate::state::home_mounts::{HomeFiles, without_end};
use crate::state::shared::Shared;
use os::areas::Area;
use os::pidfd::PidFd;
use os::ptrace::HostTid;
use room_protocol::ToHome;
use room_protocol::message::{Errand, HeldFile};
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Tells whether an area of a process shows such a file.
pub fn shows(host: HostTid, area: &Area, home: &HomeFiles) -> bool {
    may_be_shown(area, home) && (stores(host, area) || home.memory.is_some_and(|memory| memory.device == area.device))
}

/// Tells whether an area shows a file of home's that is held if a process stores in it.
pub fn may_be_shown(area: &Area, home: &HomeFiles) -> bool {
    area.shared && area.inode != 0 && home.show_in(area)
}

/// Tells whether a process may store through this shared area, or may come to (mprotect(2)): the
/// file was opened for writing, as the kernel's link to it says.
fn stores(host: HostTid, area: &Area) -> bool {
    let link = || format!("/proc/{}/map_files/{:x}-{:x}", host.0, area.start, area.end);
    area.writable || std::fs::symlink_metadata(link()).is_ok_and(|link| link.mode() & libc::S_IWUSR != 0)
}

/// Names the file of home's that a descriptor is open on, if home must hold it before it is mapped
/// shared. `writable`: the mapping is to be.
pub fn to_be_held(room: &Shared, host: HostTid, fd: i32, writable: bool) -> Option<HeldFile> {
    let home = HomeFiles::of(host).ok()?;
    let info = os::process::fd_info(host.0, fd).ok()?;
    let device = home.device(info.mount_id)?;
    let is_memory = home.memory.is_some_and(|memory| memory.mount == info.mount_id);
    let stores = writable && info.flags & libc::O_ACCMODE == libc::O_RDWR;
    let held = || Some(HeldFile { device: room.device_numbers.at_home(device)?, inode: info.inode });
    (is_memory || stores).then(held).flatten()
}

/// How home opens the file that an area shows: as its mapping may be used.
pub fn access(host: HostTid, area: &Area) -> i32 {
    if stores(host, area) { libc::O_RDWR } else { libc::O_RDONLY }
}

/// How long a call that home has allowed may take until its mapping is there.
const SETTLES_WITHIN: Duration = Duration::from_millis(50);

/// A process at home waits for a file: those that have it mapped go home, where they open it too.
pub fn give_up(room: &Arc<Shared>, file: HeldFile) {
    let here = room.clone();
    // To list a guest's memory may take as long as a page that it waits for.
    let looks = move || {
        let mut mapped = mapped_by(&here, file);
        if mapped.is_empty() {
            std::thread::sleep(SETTLES_WITHIN);
            mapped = mapped_by(&here, file);
        }
        if mapped.is_empty() && write_back(&here, file) {
            here.tell(&ToHome::Yielded { file });
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
fn mapped_by(room: &Shared, file: HeldFile) -> Vec<(i32, Vec<u8>)> {
    guests(room).into_iter().filter_map(|(pid, host)| Some((pid, name(room, host, file)?))).collect()
}

/// Writes back what processes have stored that had the file mapped, and may just end. `false`: no
/// process has it open any more, and home hears that with its last page.
fn write_back(room: &Shared, file: HeldFile) -> bool {
    let opened = |host: HostTid| {
        let home = HomeFiles::of(host).ok()?;
        let is_it = |fd: &i32| {
            os::process::fd_info(host.0, *fd).is_ok_and(|info| {
                info.inode == file.inode
                    && home.device(info.mount_id).and_then(|here| room.device_numbers.at_home(here))
                        == Some(file.device)
            })
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
        tracing::warn!("a file of home's cannot be written back, so a process that waits for it is refused: {e}");
    }
    done == 0
}

/// The file's name, if this process has it mapped shared.
fn name(room: &Shared, host: HostTid, file: HeldFile) -> Option<Vec<u8>> {
    let areas = os::areas::read(host.0).ok()?;
    let device = |area: &Area| rustix::fs::makedev(area.device.0, area.device.1);
    let is_it = |area: &Area| {
        area.shared && area.inode == file.inode && room.device_numbers.at_home(device(area)) == Some(file.device)
    };
    let area = areas.into_iter().find(is_it)?;
    Some(without_end(PathBuf::from(OsString::from_vec(area.name))).into_os_string().into_vec())
}

/// Where a process has such files mapped.
pub fn mapped(host: HostTid) -> Result<Vec<(u64, u64)>, checkpoint::BodyError> {
    let home = HomeFiles::of(host)?;
    let areas = os::areas::read(host.0)?;
    Ok(areas.iter().filter(|area| shows(host, area, &home)).map(|area| (area.start, area.end)).collect())
}
