//! Bodies that have memory in common go home together: all stand still when the first of them is
//! collected, and until home has all, or gives it up. Each is collected when home asks for it; what
//! they have in common comes with the first that has it.

use crate::supervisor::memory_group as relatives;
use crate::supervisor::sharers::common_files::refusal;
use crate::supervisor::tracer::Tracer;
use crate::supervisor::tracer::state::departing::DepartureState;
use migration_plan::Pace;
use os::areas::Shown;
use room_protocol::message::Family;
use room_protocol::{Refusal, ToHome};
use std::collections::BTreeSet;

impl Tracer {
    /// With whom a body that is to leave has to leave, as far as that is known while they run.
    pub fn family_of(&self, pid: i32) -> Result<BTreeSet<i32>, checkpoint::BodyError> {
        match self.departing.states.get(&pid) {
            Some(DepartureState::Standing(_, going)) if going.family == Family::Comes => relatives::of(&self.room, pid),
            // Those of one that comes with another were found with that one.
            _ => Ok(BTreeSet::new()),
        }
    }

    /// One of a family that stands still is to leave, too.
    pub fn join(&mut self, pid: i32, first: i32, pace: Pace) {
        if let Err(e) = os::fault::at("join there") {
            return self.cannot_leave(pid, refusal(&e.into()));
        }
        let is_collected = matches!(self.departing.states.get(&first), Some(DepartureState::Collected { .. }));
        let own_bytes = self.room.guests().host(pid).and_then(|host| os::process::anonymous_bytes(host.0).ok());
        match self.departing.states.get_mut(&pid) {
            Some(DepartureState::Standing(_, going)) if going.leader == Some(first) && is_collected => {
                going.leader = None;
                (going.family, going.follow_bytes, going.pace) = (Family::With(first), u64::MAX, pace);
                self.room.tell(&ToHome::Leaving { pid, own_bytes: own_bytes.unwrap_or(0) });
                self.check_family(pid);
            }
            _ => {
                let why = format!("it does not stand still for process {first} any more");
                self.cannot_leave(pid, Refusal { why, retryable: true });
            }
        }
    }

    /// The first of a family is about to be collected: those who come with it wait, and know each
    /// other.
    pub fn bind(&mut self, first: i32, others: &BTreeSet<i32>) {
        // Those of one that comes with another are known.
        if others.is_empty() {
            return;
        }
        for pid in others.iter().copied().chain([first]) {
            if let Some(DepartureState::Standing(_, going)) = self.departing.states.get_mut(&pid) {
                going.relatives = others.iter().copied().chain([first]).filter(|other| *other != pid).collect();
            }
        }
    }

    /// Tells home with whom a collected body shares these memories. Gives for each of them whether
    /// another body brings it.
    pub fn tell_shared(&mut self, pid: i32, family: Family, relatives: &[i32], memories: Vec<Shown>) -> Vec<bool> {
        if relatives.is_empty() {
            return Vec::new();
        }
        let (first, others) = match family {
            Family::With(first) => (first, Vec::new()),
            Family::Comes | Family::Stays => (pid, relatives.to_vec()),
        };
        let elsewhere = self.departing.memory_groups.collected(pid, first, &memories);
        self.room.tell(&ToHome::Shares { pid, others, memories });
        elsewhere
    }
}
