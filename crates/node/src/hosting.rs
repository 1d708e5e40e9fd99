//! Rooms of other homes that are hosted here: how many, on which ids, with which memory.

use std::net::SocketAddr;

use control_protocol::steward::{RoomId, RoomKind};
use identity::NodeName;
use os::id_ranges;

use crate::daemon::Daemon;
use crate::hosted::{self, Hosted, Tenant};
use crate::locks::lock;
use crate::placement::Refusal;
use crate::{Error, rooms};

/// Most rooms hosted for one user of one home, who needs one; more are about to end.
const ROOMS_PER_USER_MAX: usize = 8;
/// Most rooms hosted for one home, which has one for each user: it does not keep other homes out.
const ROOMS_PER_HOME_MAX: usize = 64;

/// A home's request for a room.
pub(crate) struct Wanted {
    /// Name of the room.
    pub(crate) room: RoomId,
    /// Where the home's daemon listens.
    pub(crate) address: SocketAddr,
    /// Whose processes it will have.
    pub(crate) owner: u32,
    /// The kind of the room.
    pub(crate) kind: RoomKind,
}

/// Hosts a room of `home`: starts the warden, which finds its way to the steward.
///
/// # Errors
/// This node accepts no (more) rooms, of this home or user; no range of ids is free; the warden
/// cannot be started.
pub(crate) fn host(daemon: &Daemon, home: &NodeName, wanted: &Wanted) -> Result<(), Error> {
    let _one_by_one = lock(&daemon.rooms.taking_in);
    let me = daemon.me().name;
    let failed = |why: String| Error::Room { node: me.clone(), why };
    let (run_dir, room) = (&daemon.options.run_dir, wanted.room);
    let hosted = hosted::living(run_dir);
    let (rooms, rooms_max) = (u32::try_from(hosted.len()).unwrap_or(u32::MAX), daemon.rooms_max());
    if rooms_max == 0 {
        return Err(Refusal::NoGuests { name: me }.into());
    }
    if rooms >= rooms_max {
        return Err(Refusal::Full { name: me, rooms, rooms_max }.into());
    }
    let settings = daemon.policy.settings();
    let may_be_local = settings.local_by.includes(home.as_str()) || is_of_administrator(daemon, wanted, home.as_str());
    if wanted.kind == RoomKind::NodeLocal && !may_be_local {
        return Err(failed(format!(
            "its owner does not let processes of {home} use its own files and network (there: tern policy set \
             local-by={home})"
        )));
    }
    check_shares(&hosted, home.as_str(), wanted.owner).map_err(failed)?;
    if hosted::is_noted(run_dir, room) {
        return Err(failed("a room of this id is there already".into()));
    }
    let taken: Vec<u32> = hosted.iter().map(|h| h.tenant.id_range).collect();
    let id_range = id_ranges::lowest_free(&taken, &id_ranges::assigned())
        .ok_or_else(|| failed(format!("all {} ranges of user ids are taken", id_ranges::RANGES)))?;
    let tenant = Tenant { home: home.to_string(), owner: wanted.owner, id_range };
    let pid =
        start_warden(daemon, wanted, &tenant).map_err(|e| failed(format!("the warden cannot be started: {e}")))?;
    tracing::info!("room {room} of user {} of {home} begins, on id range {id_range}", wanted.owner);
    hosted::note(run_dir, room, tenant, pid).map_err(|e| failed(format!("cannot be noted: {e}")))
}

/// Whether a room is that of the root of a home that this node's owner lets rule it.
fn is_of_administrator(daemon: &Daemon, wanted: &Wanted, home: &str) -> bool {
    wanted.kind == RoomKind::NodeLocal && wanted.owner == 0 && daemon.policy.settings().admin_by.includes(home)
}

/// No user keeps the home's others out, and no home other homes.
fn check_shares(hosted: &[Hosted], home: &str, owner: u32) -> Result<(), String> {
    let of_home = || hosted.iter().map(|h| &h.tenant).filter(|t| t.home == home);
    if of_home().filter(|t| t.owner == owner).count() >= ROOMS_PER_USER_MAX {
        return Err(format!("it hosts {ROOMS_PER_USER_MAX} rooms of user {owner} of {home} already"));
    }
    if of_home().count() >= ROOMS_PER_HOME_MAX {
        return Err(format!("it hosts {ROOMS_PER_HOME_MAX} rooms of {home} already"));
    }
    Ok(())
}

fn memory_bytes(percent: u64) -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit)) / 100 * percent
}

fn start_warden(daemon: &Daemon, wanted: &Wanted, tenant: &Tenant) -> std::io::Result<u32> {
    let words = [
        ("--home", tenant.home.clone()),
        ("--connect", wanted.address.to_string()),
        ("--owner", tenant.owner.to_string()),
        ("--id-range", tenant.id_range.to_string()),
        ("--rooms-memory", memory_bytes(daemon.options.rooms_memory_percent).to_string()),
    ];
    let mut args: Vec<&str> = words.iter().flat_map(|(name, value)| [*name, value.as_str()]).collect();
    args.extend((wanted.kind == RoomKind::NodeLocal).then_some(rooms::NODE_LOCAL));
    args.extend(is_of_administrator(daemon, wanted, &tenant.home).then_some(rooms::NODE_ROOT));
    rooms::start_role(daemon, "__warden", wanted.room, &args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosted(home: &str, owner: u32) -> Hosted {
        Hosted::of(Tenant { home: home.into(), owner, id_range: 0 })
    }

    #[test]
    fn one_user_keeps_no_other_out() {
        let mut all: Vec<Hosted> = (0..ROOMS_PER_USER_MAX).map(|_| hosted("n1", 1000)).collect();
        assert!(check_shares(&all, "n1", 1000).unwrap_err().contains("of user 1000 of n1"));
        assert_eq!(check_shares(&all, "n1", 1001), Ok(()));
        assert_eq!(check_shares(&all, "n3", 1000), Ok(()));
        all.extend((0..ROOMS_PER_HOME_MAX as u32).map(|user| hosted("n1", 2000 + user)));
        assert!(check_shares(&all, "n1", 1001).is_err());
        assert_eq!(check_shares(&all, "n3", 1000), Ok(()));
    }
}
