//! Events at descriptors that stay at home while their process leaves: see
//! [`crate::restore::edges`] for why that counts.

use crate::migration::error::MoveError;
use crate::migration::session::MigrationSession;
use crate::room::state::Room;
use checkpoint::Collected;
use image::Image;
use os::pidfd::PidFd;
use room_protocol::message::{Place, StandinId};
use std::collections::{BTreeMap, HashMap};

/// Stand-ins of a process that leaves home of whose readiness it may have been told, and the number
/// of notices that its room had been sent when they were looked at.
#[derive(Debug, Default)]
pub struct Since {
    standins: Vec<StandinId>,
    number: u64,
}

impl Since {
    /// Tells the body, which stands, once more what has happened since then.
    pub fn tell_missed(&self, room: &Room) {
        if self.standins.is_empty() {
            return;
        }
        room.notices(Vec::new());
        let missed = |standin: &StandinId| room.table().noticed_since(self.number, *standin) != Some(false);
        room.notice(self.standins.iter().copied().filter(missed).collect());
    }
}

impl MigrationSession {
    /// Notes what the epoll instances of a process that leaves home have told already.
    pub fn find_told(&self, place: &Place, collected: &mut Collected, image: &mut Image) -> Result<Since, MoveError> {
        let of: HashMap<i32, StandinId> = place.descriptors.iter().map(|d| (d.fd, d.standin)).collect();
        let mut standins: BTreeMap<StandinId, i32> =
            checkpoint::may_be_told(image).filter_map(|watched| Some((*of.get(&watched.fd)?, watched.fd))).collect();
        let mut since = Since::default();
        if !standins.is_empty() {
            since.standins = standins.keys().copied().collect();
            // The instance may watch them only since its body was prepared.
            standins.retain(|standin, _| !self.room.table().anchors.contains_key(standin));
            let pidfd = PidFd::open(self.pid)?;
            for (standin, fd) in standins {
                self.room.hold(standin, pidfd.get_fd(fd)?);
            }
            let number = self.room.notices(since.standins.clone());
            since.number = number.ok_or_else(|| MoveError::Silent("the steward ends".into()))?;
        }
        collected.find_told(image)?;
        Ok(since)
    }
}
