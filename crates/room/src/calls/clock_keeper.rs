//! Keeps the room's wall clock right: asks home for its clock all the time.

use crate::state::shared::Shared;
use crate::state::wall::PERIOD;
use room_protocol::ToHome;

/// Keeps the room's wall clock right, for ever.
pub fn keep(room: &Shared) {
    let Some(wall) = room.wall.get() else { return };
    loop {
        std::thread::sleep(PERIOD);
        wall.follow(|| room.tell(&ToHome::Clock));
    }
}
