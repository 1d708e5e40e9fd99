//! Control groups of rooms: one for all of a node's rooms together, and below it one for each.
//!
//! The limit for all rooms together leaves the node's owner a share of the machine's memory,
//! however many rooms there are. The limit for one may have leaves the others something.

use crate::warden::args::WardenArgs;
use control_protocol::paths::{ROOMS_GROUP, room_group};
use control_protocol::steward::RoomId;
use os::cgroup::{Group, Limits};
use os::ptrace::HostTid;
use std::time::Duration;

/// Processes and threads that one room may have.
const PIDS_MAX: u64 = 4096;
/// The share of the CPUs that all rooms have together, beside one process of the node's own (100):
/// the owner comes first. Rooms share it alike.
const CPU_WEIGHT: u64 = 50;
/// How long the kernel may take to end the guests of a room.
const EMPTY_WITHIN: Duration = Duration::from_secs(5);
/// The group of all rooms may be removed with the last room just when it is to be used: so often it
/// is made again.
const TRIES_MAX: usize = 8;

/// The groups that a room is in.
pub struct Limited {
    room: Group,
    /// Removed with the last room.
    rooms: Group,
}

impl Limited {
    /// Kills what is left in the room, and removes its group.
    ///
    /// # Errors
    /// It does not become empty.
    pub fn end(self) -> os::Result<()> {
        self.room.end(EMPTY_WITHIN)?;
        // Not while there are other rooms.
        drop(self.rooms);
        Ok(())
    }
}

/// Puts the room's first process, and all that it makes, under limits. A machine that has no groups
/// to give still hosts, without.
pub fn put(args: &WardenArgs, porter: HostTid) -> Option<Limited> {
    let pids = Limits { pids: Some(PIDS_MAX), ..Limits::default() };
    let memory = Limits { memory_bytes: Some(args.rooms_memory_bytes), ..Limits::default() };
    let attempt = |rooms: Limits, room: Limits| make(RoomId(args.room), porter, rooms, room);
    let made = attempt(Limits { cpu_weight: Some(CPU_WEIGHT), ..memory }, Limits { pids: pids.pids, ..memory });
    // A machine whose memory and CPU controllers are taken by others still limits the number of
    // processes.
    let made = made.or_else(|_| attempt(Limits::default(), pids));
    made.inspect_err(|e| tracing::warn!("no limits for the room: {e}")).ok()
}

fn make(room: RoomId, porter: HostTid, of_rooms: Limits, of_room: Limits) -> os::Result<Limited> {
    let path = room_group(room);
    let mut made = Group::create(&path, &of_room);
    for _ in 1..TRIES_MAX {
        if made.is_ok() {
            break;
        }
        made = Group::create(&path, &of_room);
    }
    let room = made?;
    // As long as the room has its group, nobody removes the one above: the limit stays.
    let rooms = Group::create(ROOMS_GROUP, &of_rooms)?;
    room.attach(porter.0)?;
    Ok(Limited { room, rooms })
}
