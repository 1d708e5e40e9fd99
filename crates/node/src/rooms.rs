//! Rooms of this home: one steward here and one warden there for each user with processes on each
//! node.
//!
//! Users share no room: what one of them floods (queues, tables, ids, memory) is the own room's.
//! Root's processes are apart like any other user's. What counts is the user with whom a process
//! enters ([`os::process::owner`]).

pub(crate) mod registry;

pub(crate) use registry::Tenancy;

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use control_protocol::paths::{log_dir, steward_socket};
use control_protocol::peer::{Member, PeerRequest};
use control_protocol::steward::{RoomId, RoomKind};

use crate::daemon::Daemon;
use crate::dial::Session;
use crate::hosted::Process;
use crate::locks::lock;
use crate::placement::{self, Refusal, Survey};
use crate::rooms::registry::{Arrival, Slot};
use crate::steward::{Steward, is_absent};
use crate::{Error, room_files, spawn};

/// How long a warden may take from its start to its connection here: its node may have much to do.
const ARRIVAL_WITHIN: Duration = Duration::from_secs(30);
/// A survey older than this is renewed (beside the placement that noticed).
const SURVEY_AGE: Duration = Duration::from_secs(5);
/// The word by which stewards and wardens are told that a room is node-local.
pub(crate) const NODE_LOCAL: &str = "--node-local";
/// The word that has a warden make a room whose root is this machine's own.
pub(crate) const NODE_ROOT: &str = "--node-root";
/// End of the names of stewards' sockets.
const STEWARD: &str = "steward";

/// Returns the steward of this room on this member; both are made if need be. `any_cpu`: its CPU
/// may lack what this one's has.
pub(crate) fn steward_on(
    daemon: &Arc<Daemon>,
    member: &Member,
    tenancy: Tenancy,
    any_cpu: bool,
) -> Result<Steward, Error> {
    let slot = daemon.rooms.slot(&member.name, tenancy);
    let mut room = lock(&slot);
    if let Some(id) = *room {
        match Steward::connect(&daemon.options.run_dir, id) {
            Ok(steward) => {
                check_reuse(daemon, member, any_cpu)?;
                return Ok(steward);
            }
            Err(e) => tracing::info!("room {id} on {} is gone ({e})", member.name),
        }
    }
    *room = None;
    let (id, steward) = match set_up(daemon, member, tenancy, any_cpu) {
        // Rooms without guests are kept for the next ones, but not if they keep another user out.
        Err(e) if e.is_full() && close_idle(daemon, &member.name, tenancy.owner) => {
            tracing::info!("{}: tried again without rooms that nobody is in", e.chain());
            set_up(daemon, member, tenancy, any_cpu)?
        }
        made => made?,
    };
    *room = Some(id);
    Ok(steward)
}

/// Returns the room of this user on a node, if there is one; makes none.
pub(crate) fn room_on(daemon: &Daemon, node: &str, owner: u32) -> Option<RoomId> {
    *lock(&daemon.rooms.slot(node, Tenancy { owner, kind: RoomKind::Home }))
}

/// Says whether [`steward_on`] would find or make a room of this user on this member, and which it
/// would find; makes none.
///
/// # Errors
/// The node is no target.
pub(crate) fn rehearse(daemon: &Arc<Daemon>, member: &Member, owner: u32) -> Result<Option<RoomId>, Error> {
    let slot = daemon.rooms.slot(&member.name, Tenancy { owner, kind: RoomKind::Home });
    let room = lock(&slot).filter(|id| Steward::connect(&daemon.options.run_dir, *id).is_ok());
    match room {
        Some(_) => check_reuse(daemon, member, false)?,
        None => {
            let (_, survey) = daemon.runtime.block_on(survey(daemon, member))?;
            placement::check(daemon.facts(), &member.name, &survey, false)?;
        }
    }
    Ok(room)
}

/// A room that lives on a node that was a target is used at once; the verdict is renewed beside it.
/// Else it is asked again.
fn check_reuse(daemon: &Arc<Daemon>, member: &Member, any_cpu: bool) -> Result<(), Error> {
    let known = lock(&daemon.rooms.verdicts).get(&member.name).cloned();
    match known.map(|(at, verdict)| (at, placement::waive(verdict, any_cpu))) {
        Some((at, Ok(()))) if at.elapsed() < SURVEY_AGE => Ok(()),
        Some((_, Ok(()))) => {
            let (asking, member) = (Arc::clone(daemon), member.clone());
            daemon.runtime.spawn(async move {
                if let Err(e) = survey(&asking, &member).await {
                    tracing::info!("survey of {}: {}", member.name, e.chain());
                }
            });
            Ok(())
        }
        Some((_, Err(_))) | None => {
            let (_, survey) = daemon.runtime.block_on(survey(daemon, member))?;
            Ok(placement::waive(placement::check(daemon.facts(), &member.name, &survey, true), any_cpu)?)
        }
    }
}

/// Looks what the node is, and keeps the verdict.
async fn survey(daemon: &Daemon, member: &Member) -> Result<(Session, Survey), Error> {
    let surveyed = async {
        let mut session = Session::open(daemon, member).await?;
        let mut survey = session.survey(daemon).await?;
        survey.shows_clock = lock(&daemon.rooms.shows_clock).contains(&member.name);
        Ok((session, survey))
    };
    let surveyed: Result<(Session, Survey), Error> = surveyed.await;
    let verdict = match &surveyed {
        Ok((_, survey)) => placement::check(daemon.facts(), &member.name, survey, true),
        Err(_) => Err(Refusal::Silent { name: member.name.clone() }),
    };
    lock(&daemon.rooms.verdicts).insert(member.name.clone(), (Instant::now(), verdict));
    surveyed
}

fn set_up(daemon: &Arc<Daemon>, member: &Member, tenancy: Tenancy, any_cpu: bool) -> Result<(RoomId, Steward), Error> {
    let Tenancy { owner, kind } = tenancy;
    let _turn = daemon.rooms.turns.take();
    let started = Instant::now();
    let failed = |why: String| Error::Room { node: member.name.clone(), why };
    let (mut session, survey) = daemon.runtime.block_on(survey(daemon, member))?;
    placement::waive(placement::check(daemon.facts(), &member.name, &survey, false), any_cpu)?;
    note_clock(daemon, &member.name, survey);
    let room = RoomId(rand::random());
    let run_dir = &daemon.options.run_dir;
    let (whose, lost_after) = (owner.to_string(), daemon.policy.params().link_timeout_ms.to_string());
    let at = member.address.to_string();
    let mut args = vec!["--host", &member.name, "--address", &at, "--owner", &whose, "--lost-after", &lost_after];
    args.extend((kind == RoomKind::NodeLocal).then_some(NODE_LOCAL));
    let pid = start_role(daemon, "__steward", room, &args)
        .map_err(|e| failed(format!("the steward cannot be started: {e}")))?;
    let process = Process::of(pid).ok_or_else(|| failed("the steward ended as it began".into()))?;
    let arrival = expect_arrival(daemon, room, process);
    let address = daemon.me().address;
    let result = daemon
        .runtime
        .block_on(session.ask(&PeerRequest::HostRoom { room, address, owner, kind }))
        .map_err(|e| if e.is_full() { e } else { failed(e.chain()) })
        .and_then(|_| await_arrival(&arrival).map_err(failed))
        .and_then(|()| Steward::connect(run_dir, room).map_err(|e| failed(format!("the steward has ended: {e}"))));
    lock(&daemon.rooms.arrivals).remove(&room);
    match result {
        Ok(steward) => {
            tracing::info!(
                "room {room} of user {owner} on {} is up after {} ms",
                member.name,
                started.elapsed().as_millis()
            );
            Ok((room, steward))
        }
        Err(why) => {
            if let Ok(steward) = Steward::await_start(run_dir, room, process) {
                let _ = steward.close();
            }
            Err(why)
        }
    }
}

/// A room is made on this host whose clock is wrong, or not; the warden finds the same.
fn note_clock(daemon: &Daemon, host: &str, survey: Survey) {
    let shows_clock = survey.is_skewed();
    match shows_clock {
        true => drop(lock(&daemon.rooms.shows_clock).insert(host.to_owned())),
        false => drop(lock(&daemon.rooms.shows_clock).remove(host)),
    }
    let verdict = placement::check(daemon.facts(), host, &Survey { shows_clock, ..survey }, true);
    lock(&daemon.rooms.verdicts).insert(host.to_owned(), (Instant::now(), verdict));
}

fn expect_arrival(daemon: &Daemon, room: RoomId, steward: Process) -> Receiver<Result<(), String>> {
    let (handed, receiver) = sync_channel(1);
    lock(&daemon.rooms.arrivals).insert(room, Arrival { steward, handed });
    receiver
}

fn await_arrival(arrival: &Receiver<Result<(), String>>) -> Result<(), String> {
    arrival
        .recv_timeout(ARRIVAL_WITHIN)
        .map_err(|_| format!("its warden did not connect within {} s", ARRIVAL_WITHIN.as_secs()))?
}

/// Does a steward of this room run here, or is one starting?
pub(crate) fn is_ours(daemon: &Daemon, room: RoomId) -> bool {
    lock(&daemon.rooms.arrivals).contains_key(&room) || steward_socket(&daemon.options.run_dir, room).exists()
}

/// A warden's connection has come: on to the steward.
pub(crate) fn arrived(daemon: &Daemon, room: RoomId, socket: &OwnedFd) {
    let starting = lock(&daemon.rooms.arrivals).get(&room).map(|arrival| arrival.steward);
    let run_dir = &daemon.options.run_dir;
    let steward = match starting {
        Some(process) => Steward::await_start(run_dir, room, process),
        // The last daemon began it.
        None => Steward::connect(run_dir, room),
    };
    let handed = steward
        .map_err(|e| format!("the steward does not start: {e}"))
        .and_then(|steward| steward.connect_warden(socket.as_fd()));
    if let Err(why) = &handed {
        tracing::warn!("warden of room {room} not handed over: {why}");
    }
    if let Some(waiting) = lock(&daemon.rooms.arrivals).remove(&room) {
        let _ = waiting.handed.send(handed);
    }
}

/// Starts a steward or a warden; returns its PID.
pub(crate) fn start_role(daemon: &Daemon, role: &str, room: RoomId, args: &[&str]) -> std::io::Result<u32> {
    let options = &daemon.options;
    let id = room.to_string();
    let mut all = vec!["--room".as_ref(), id.as_ref()];
    all.extend(args.iter().map(std::ffi::OsStr::new));
    all.extend(["--run-dir".as_ref(), options.run_dir.as_os_str(), "--state".as_ref(), options.state.as_os_str()]);
    spawn::detached(role, all, &log_dir(&options.run_dir).join(crate::log::FILE), &options.forbidden)
}

/// How many rooms of this home have a steward.
pub(crate) fn count(run_dir: &Path) -> u32 {
    u32::try_from(room_files::ids(run_dir, STEWARD).len()).unwrap_or(u32::MAX)
}

/// Stewards that serve; sockets that a dead one left are removed.
pub(crate) fn stewards(run_dir: &Path) -> Vec<(RoomId, Steward)> {
    let live = |id| match Steward::connect(run_dir, id) {
        Ok(steward) => Some((id, steward)),
        Err(e) => {
            if is_absent(&e) {
                let _ = std::fs::remove_file(steward_socket(run_dir, id));
            }
            None
        }
    };
    room_files::ids(run_dir, STEWARD).into_iter().filter_map(live).collect()
}

/// A daemon that starts anew finds the rooms that outlived the last one.
pub(crate) fn adopt(daemon: &Arc<Daemon>) {
    let mut unfinished = Vec::new();
    for (id, steward) in stewards(&daemon.options.run_dir) {
        match steward.list() {
            Ok((host, true, guests)) => {
                tracing::info!("room {id} on {host} with {} guests taken over", guests.len());
                match steward.owner() {
                    Ok(owner) => {
                        let tenancy = Tenancy { owner, kind: steward.kind() };
                        *lock(&daemon.rooms.slot(&host, tenancy)) = Some(id);
                    }
                    // One of an older tern may have processes of several users: it takes no more.
                    Err(e) => tracing::warn!("room {id} is not used again: {e}"),
                }
            }
            Ok((host, false, guests)) => {
                tracing::info!("room {id} on {host} with {} guests is not connected", guests.len());
                unfinished.push(id);
            }
            Err(e) => tracing::warn!("room {id}: {e}"),
        }
    }
    if !unfinished.is_empty() {
        let daemon = Arc::clone(daemon);
        daemon.runtime.clone().spawn(async move {
            tokio::time::sleep(ARRIVAL_WITHIN).await;
            let _ = tokio::task::spawn_blocking(move || give_up(&daemon, &unfinished)).await;
        });
    }
}

/// Ends stewards whose room the last daemon did not live to see connected. Those with guests are
/// only cut off.
fn give_up(daemon: &Daemon, unfinished: &[RoomId]) {
    for (id, steward) in stewards(&daemon.options.run_dir).into_iter().filter(|(id, _)| unfinished.contains(id)) {
        if matches!(steward.list(), Ok((_, false, guests)) if guests.is_empty()) {
            tracing::info!("room {id} never came up: {:?}", steward.close());
        }
    }
}

/// Closes rooms of other users on this host that have no guests; whether there were any.
fn close_idle(daemon: &Daemon, host: &str, owner: u32) -> bool {
    let others: Vec<Slot> = {
        let slots = lock(&daemon.rooms.slots);
        slots.iter().filter(|((on, of), _)| on == host && of.owner != owner).map(|(_, slot)| Arc::clone(slot)).collect()
    };
    let mut any = false;
    for slot in others {
        // Whoever holds it uses the room.
        let Ok(mut room) = slot.try_lock() else { continue };
        let steward = room.and_then(|id| Steward::connect(&daemon.options.run_dir, id).ok());
        let idle = steward.filter(|steward| matches!(steward.list(), Ok((_, true, guests)) if guests.is_empty()));
        if let Some(steward) = idle {
            any |= steward.close().is_ok();
            *room = None;
        }
    }
    any
}

/// Closes this home's rooms (on `host`, or all) that have no guests.
///
/// # Errors
/// In words, if one has guests: nothing is closed then.
pub(crate) fn vacate(daemon: &Daemon, host: Option<&str>) -> Result<(), String> {
    let mut idle = Vec::new();
    for (id, steward) in stewards(&daemon.options.run_dir) {
        let (on, _, guests) = steward.list().map_err(|e| format!("room {id}: {e}"))?;
        if host.is_some_and(|h| h != on) {
            continue;
        }
        if !guests.is_empty() {
            return Err(format!("{} processes of {} are on {on}", guests.len(), daemon.me().name));
        }
        idle.push(steward);
    }
    idle.iter().try_for_each(Steward::close)
}
