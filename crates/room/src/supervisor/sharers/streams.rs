//! Streams, which become stand-ins before a process that has them leaves; and stand-ins that become
//! streams. All who have one get the other at one moment.

use crate::state::shared::Shared;
use crate::supervisor::sharers::common_files::{CommonFileKind, CommonOpenFile, Commons, DescriptorPlace, Found};
use os::process;
use os::ptrace::HostTid;
use room_protocol::message::StandinId;

/// Adds a stream, which these descriptors are. One that was closed, and whose bytes are still to be
/// read, has none.
pub fn add(found: &mut Commons, standin: StandinId, holders: Found) {
    let flags = holders.first().map_or(0, |(_, info)| info.flags);
    let places: Vec<DescriptorPlace> = holders.into_iter().map(|(place, _)| place).collect();
    found.others.extend(places.iter().map(|place| place.pid));
    found.files.push(CommonOpenFile { places, flags, what: CommonFileKind::Stream(standin) });
}

/// Adds a stand-in, with all descriptors of these processes that are it.
pub fn add_standin(
    room: &Shared,
    found: &mut Commons,
    standin: StandinId,
    processes: impl Iterator<Item = (i32, HostTid)>,
) {
    let mut holders = Found::new();
    for (pid, host) in processes {
        // One that has ended has nothing.
        for fd in process::descriptors(host.0).unwrap_or_default() {
            let Ok(info) = process::fd_info(host.0, fd) else { continue };
            if room.standins.standin(info.mount_id, info.inode) == Some(standin) {
                let close_on_exec = info.flags & libc::O_CLOEXEC != 0;
                holders.push((DescriptorPlace { pid, host, fd, close_on_exec }, info));
            }
        }
    }
    let Some((_, info)) = holders.first() else { return };
    let flags = info.flags;
    let places: Vec<DescriptorPlace> = holders.into_iter().map(|(place, _)| place).collect();
    found.others.extend(places.iter().map(|place| place.pid));
    found.files.push(CommonOpenFile { places, flags, what: CommonFileKind::Standin(standin) });
}
