//! Which rooms of others are hosted here: one file for each, `rooms/ROOM.hosted`, so that the next
//! daemon knows too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use control_protocol::paths::{rooms_dir, warden_socket};
use control_protocol::steward::RoomId;
use os::pidfd::PidFd;
use serde::{Deserialize, Serialize};

/// End of the files' names.
const SUFFIX: &str = "hosted";

/// Whom a room is hosted for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Tenant {
    /// Name of the home.
    pub(crate) home: String,
    /// Whose processes it has, as that home numbers users. Rooms of older daemons do not say; they
    /// began as root's.
    #[serde(default)]
    pub(crate) owner: u32,
    /// Its range of ids here ([`os::id_ranges`]); older daemons gave all rooms ids that begin with
    /// the first one's.
    #[serde(default)]
    pub(crate) id_range: u32,
}

/// The warden of a hosted room. PID and start time together name one process for ever.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hosted {
    #[serde(flatten)]
    pub(crate) tenant: Tenant,
    pid: u32,
    /// Field 22 of /proc/PID/stat, clock ticks since boot.
    started: u64,
}

impl Hosted {
    #[cfg(test)]
    pub(crate) fn of(tenant: Tenant) -> Hosted {
        Hosted { tenant, pid: 0, started: 0 }
    }

    fn is_alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    /// PID of the warden.
    pub(crate) fn warden(&self) -> Option<i32> {
        i32::try_from(self.pid).ok()
    }

    /// Ends the warden, and with it the room.
    pub(crate) fn end(&self) {
        let Some(held) = self.warden().and_then(|pid| PidFd::open(pid).ok()) else { return };
        // What is held now is the warden if it is alive still.
        if self.is_alive()
            && let Err(e) = held.kill(libc::SIGKILL)
        {
            tracing::warn!("a room of {} is not ended: {e}", self.tenant.home);
        }
    }
}

/// Notes that the process `pid` is the warden of this room.
pub(crate) fn note(run_dir: &Path, room: RoomId, tenant: Tenant, pid: u32) -> io::Result<()> {
    // Already gone: it will say why in the log, and there is nothing to note.
    let Some(started) = start_time(pid) else { return Ok(()) };
    let hosted = Hosted { tenant, pid, started };
    fs::write(path(run_dir, room), serde_json::to_vec(&hosted)?)
}

/// The room is, or lately was, hosted here.
pub(crate) fn is_noted(run_dir: &Path, room: RoomId) -> bool {
    path(run_dir, room).exists()
}

/// Hosted rooms whose warden lives; notes on others are removed.
pub(crate) fn living(run_dir: &Path) -> Vec<Hosted> {
    let read = |id: RoomId| {
        let path = path(run_dir, id);
        let hosted: Option<Hosted> = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let alive = hosted.filter(Hosted::is_alive);
        if alive.is_none() {
            // The warden removes its socket itself, unless it was killed.
            let _ = fs::remove_file(warden_socket(run_dir, id));
            let _ = fs::remove_file(path);
        }
        alive
    };
    crate::room_files::ids(run_dir, SUFFIX).into_iter().filter_map(read).collect()
}

/// How many there are.
pub(crate) fn count(run_dir: &Path) -> u32 {
    u32::try_from(living(run_dir).len()).unwrap_or(u32::MAX)
}

fn path(run_dir: &Path, room: RoomId) -> PathBuf {
    rooms_dir(run_dir).join(format!("{room}.{SUFFIX}"))
}

/// One process for ever: numbers are given again, with another start time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pid: u32,
    /// Clock ticks since boot.
    started: u64,
}

impl Process {
    /// Names the process that has this number now.
    pub(crate) fn of(pid: u32) -> Option<Process> {
        start_time(pid).map(|started| Process { pid, started })
    }

    /// Whether it has not ended.
    pub(crate) fn is_alive(self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// Start time of a process that is not a zombie.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; behind it come the state (field 3) and so on.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    if fields.next()? == "Z" { None } else { fields.nth(18)?.parse().ok() }
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_live_as_long_as_the_warden() {
        let run_dir = std::env::temp_dir().join(format!("tern-hosted-{}", std::process::id()));
        fs::create_dir_all(rooms_dir(&run_dir)).unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let room = RoomId([5; 16]);
        let tenant = Tenant { home: "n1".into(), owner: 1000, id_range: 7 };
        note(&run_dir, room, tenant, child.id()).unwrap();
        let found = living(&run_dir).remove(0).tenant;
        assert_eq!((found.home.as_str(), found.owner, found.id_range), ("n1", 1000, 7));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(count(&run_dir), 0);
        assert!(!is_noted(&run_dir, room));
        fs::remove_dir_all(&run_dir).unwrap();
    }
}
