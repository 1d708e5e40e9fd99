//! Events at descriptors that stay at home while their process is on its way. An epoll
//! instance tells of an edge (EPOLLET) once; the one that takes its place finds what it watches
//! ready, and is made to take that for told if the first one had told it
//! ([`checkpoint::watch_again`]). It would so miss what happens between the two: the steward, which
//! watches the same, sees that it is told.

use crate::deputy::record::Deputy;
use crate::room::state::Room;
use image::{Image, Opened, Watched};
use room_protocol::message::StandinId;
use std::collections::HashMap;

/// Of a process that comes home.
#[derive(Debug)]
pub struct Edges {
    /// Which stand-ins its deputy's descriptors had.
    standins: HashMap<i32, StandinId>,
    /// Notices that had come to the room when it stood still.
    number: u64,
}

impl Edges {
    /// While the deputy is the room's still.
    pub fn of(room: &Room, pid: i32, number: u64) -> Edges {
        let table = room.table();
        let all = table.deputies.get(&pid).into_iter().flat_map(|deputy| &deputy.standins);
        Edges { standins: all.flat_map(|(standin, fds)| fds.iter().map(|fd| (*fd, *standin))).collect(), number }
    }

    /// The stand-ins that the deputy had.
    pub fn standins(&self) -> Vec<StandinId> {
        self.standins.values().copied().collect()
    }

    /// To which of these, of which the room had told, something has happened since then.
    pub fn missed(&self, room: &Room, image: &Image, told: Vec<(i32, Watched)>) -> Vec<(i32, Watched)> {
        let at_home = |watched: &Watched| {
            let shows = image.descriptors.iter().find(|d| d.fd == watched.fd)?;
            if let Opened::Home(fd) = shows.opened { Some(fd) } else { None }
        };
        let (told, _): (Vec<_>, Vec<_>) = told.into_iter().partition(|(_, watched)| at_home(watched).is_some());
        // A steward that does not know says that it has.
        if told.is_empty() || room.notices(Vec::new()).is_none() {
            return told;
        }
        let table = room.table();
        let is_missed = |(_, watched): &(i32, Watched)| {
            let standin = at_home(watched).and_then(|fd| self.standins.get(&fd));
            standin.and_then(|standin| table.noticed_since(self.number, *standin)) != Some(false)
        };
        told.into_iter().filter(is_missed).collect()
    }
}

/// Descriptors of a deputy to which something has happened since its room had got so many notices.
pub fn changed(room: &Room, deputy: &Deputy, number: u64) -> Vec<i32> {
    let is_watched = |standin: &StandinId| room.table().noticed_since(number, *standin).is_some();
    if !deputy.standins.keys().any(is_watched) {
        return Vec::new();
    }
    room.notices(Vec::new());
    let table = room.table();
    let changed = deputy.standins.iter().filter(|(s, _)| table.noticed_since(number, **s) == Some(true));
    changed.flat_map(|(_, fds)| fds.iter().copied()).collect()
}
