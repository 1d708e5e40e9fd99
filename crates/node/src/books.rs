//! The books of `tern usage`: the accounts, the file that keeps them, and what was seen of
//! processes at the last look.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use ::policy::accounts::{Accounts, Seen, Used};
use control_protocol::paths::ROOMS_GROUP;
use control_protocol::steward::RoomId;
use identity::Identity;
use serde::{Deserialize, Serialize};

use crate::at_home;
use crate::locks::lock;
use crate::steward::RoomUsage;

/// Note in the state directory.
const FILE: &str = "usage.json";
/// The accounts, and what was seen at the last look.
pub(crate) struct Books {
    kept: Mutex<Kept>,
    last: Mutex<Look>,
}

/// The content of the file. The daemon writes both together, so that nothing counts twice if it
/// dies.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The accounts of all days.
    pub(crate) accounts: Accounts,
    /// CPU time of rooms that is in the accounts, microseconds, by the rooms' ids.
    rooms: BTreeMap<String, u64>,
}

/// One look at the processes.
#[derive(Default)]
pub(crate) struct Look {
    /// When that was.
    pub(crate) at: Option<Instant>,
    /// The processes, by number.
    pub(crate) processes: HashMap<i32, Seen>,
    /// Processes of rooms that this machine hosts, by number and beginning: they are others'.
    hosted: HashMap<i32, u64>,
}

impl Books {
    /// Reads the accounts; empty ones, if they cannot be read.
    pub(crate) fn load(identity: &Identity) -> Books {
        let read = identity.read_note(FILE).ok().flatten();
        let kept: Option<Kept> = read.and_then(|bytes| {
            let read = serde_json::from_slice(&bytes);
            read.inspect_err(|e| tracing::warn!("{FILE} is damaged ({e}): the accounts begin anew")).ok()
        });
        Books { kept: Mutex::new(kept.unwrap_or_default()), last: Mutex::default() }
    }

    /// Adds to the accounts of today.
    pub(crate) fn note(&self, user: u32, host: &str, used: Used) {
        self.kept().accounts.add(os::local_time::day(), user, host, used);
    }

    /// Writes the accounts.
    pub(crate) fn save(&self, identity: &Identity) {
        let bytes = serde_json::to_vec(&*self.kept()).map_err(|e| e.to_string());
        if let Err(e) = bytes.and_then(|bytes| identity.write_note(FILE, &bytes).map_err(|e| e.to_string())) {
            tracing::warn!("the accounts are not saved: {e}");
        }
    }

    /// Locks what the file holds.
    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// Locks what was seen at the last look; before [`Books::kept`], if both are needed.
    pub(crate) fn last(&self) -> MutexGuard<'_, Look> {
        lock(&self.last)
    }
}

impl Look {
    /// All processes of this machine but those that it hosts.
    pub(crate) fn processes(&mut self) -> HashMap<i32, Seen> {
        let all: HashMap<i32, Seen> = at_home::all().into_iter().filter_map(|pid| Some((pid, seen(pid)?))).collect();
        self.hosted.retain(|pid, began| all.get(pid).is_some_and(|seen| seen.began == *began));
        for seen in all.values() {
            let is_known = self.processes.get(&seen.pid).is_some_and(|known| known.began == seen.began);
            if !is_known && !self.hosted.contains_key(&seen.pid) && is_hosted(seen.pid) {
                self.hosted.insert(seen.pid, seen.began);
            }
        }
        all.into_iter().filter(|(pid, _)| !self.hosted.contains_key(pid)).collect()
    }
}

/// Tells whether a process belongs to a room.
fn is_hosted(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(ROOMS_GROUP))
}

fn seen(pid: i32) -> Option<Seen> {
    let user = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, in parentheses, come the state (field 3) and so on.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok());
    let ticks = number(14)? + number(15)? + number(16)? + number(17)?;
    let cpu_ms = ticks * at_home::TICK_US / 1000;
    Some(Seen { pid, parent: i32::try_from(number(4)?).ok()?, began: number(22)?, user, cpu_ms })
}

impl Kept {
    /// Notes what rooms have used beyond what is in the accounts. Rooms that have gone are
    /// forgotten.
    pub(crate) fn note_rooms(&mut self, day: u32, rooms: Vec<(RoomId, Option<RoomUsage>)>) {
        let mut counted = BTreeMap::new();
        for (id, used) in rooms {
            let id = id.to_string();
            let mut before_us = self.rooms.get(&id).copied().unwrap_or(0);
            if let Some(RoomUsage { host, owner, cpu_us }) = used {
                let cpu_ms = cpu_us.saturating_sub(before_us) / 1000;
                before_us += cpu_ms * 1000;
                if cpu_ms > 0 {
                    self.accounts.add(day, owner, &host, Used { cpu_ms, ..Used::default() });
                }
            }
            counted.insert(id, before_us);
        }
        self.rooms = counted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_count_once_though_daemons_die_and_stewards_are_silent() {
        let used = |cpu_us| Some(RoomUsage { host: "n2".into(), owner: 7, cpu_us });
        let room = RoomId([1; 16]);
        let mut kept = Kept::default();
        kept.note_rooms(1, vec![(room, used(1_000_700))]);
        kept.note_rooms(1, vec![(room, None)]);
        let mut kept: Kept = serde_json::from_slice(&serde_json::to_vec(&kept).unwrap()).unwrap();
        kept.note_rooms(2, vec![(room, used(2_000_400))]);
        let ms = |kept: &Kept| kept.accounts.rows(0).iter().map(|row| row.used.cpu_ms).collect::<Vec<_>>();
        assert_eq!(ms(&kept), [1000, 1000]);
        kept.note_rooms(2, Vec::new());
        assert!(kept.rooms.is_empty());
    }
}
