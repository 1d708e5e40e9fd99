//! Seeks that a guest made here alone, of which home has to hear.

use crate::state::pending::Pending;
use crate::state::shared::Shared;
use os::ptrace::HostTid;
use room_protocol::message::{Call, StandinId};

/// Tells home of a seek that was made here alone, through another number of the same open file.
/// Returns the kernel's offset here.
pub fn align(room: &Shared, host: HostTid, fd: i32, standin: StandinId) -> Option<u64> {
    if !standin.is_file() {
        return None;
    }
    let look = || os::process::fd_info(host.0, fd).ok().map(|info| info.offset);
    let (offset, sought) = room.standins.files.look(standin, look)?;
    if sought {
        let who = room.guests().who(host)?;
        let args = [0, offset, libc::SEEK_SET as u64, 0, 0, 0];
        let call = Call { standin: Some(standin), ..Call::new(libc::SYS_lseek, args) };
        room.home.call_home(who, call, Pending::Unasked);
    }
    Some(offset)
}
