//! Makes stand-ins of descriptors that home made for a guest.

use crate::sandbox::spares::Spare;
use crate::state::guests::Who;
use crate::state::shared::Shared;
use room_protocol::ToHome;
use std::os::fd::AsFd;

/// Makes a stand-in of a descriptor that home made for a guest.
pub fn adopt(room: &Shared, who: Who, fd: i32, nonblocking: bool) -> Option<Spare> {
    let spare = room.spares.take()?;
    if nonblocking && let Err(e) = os::fds::set_nonblocking(spare.file.as_fd(), true) {
        tracing::warn!("{e}");
    }
    Some(adopted(room, who, fd, spare))
}

/// The stand-in is that of this descriptor of home's.
pub fn adopted(room: &Shared, who: Who, fd: i32, spare: Spare) -> Spare {
    if let Some(guest) = room.guests().get_mut(who.pid) {
        guest.numbers.insert(spare.standin, fd);
    }
    room.tell(&ToHome::Adopt { pid: who.pid, fd, standin: spare.standin });
    spare
}
