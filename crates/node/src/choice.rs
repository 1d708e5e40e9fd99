//! Where to place: the node asked for, or the one that the policy prefers and that will have it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_protocol::facts::Load;
use control_protocol::peer::{Member, PeerAnswer, PeerRequest};
use control_protocol::steward::{RoomId, RoomKind};

use crate::Error;
use crate::choices::{Candidate, program_of};
use crate::daemon::Daemon;
use crate::dial::Session;
use crate::placement::Refusal;
use crate::rooms::{self, Tenancy};
use crate::root_trust::Hosts;
use crate::steward::Steward;

/// A node that refused is not asked again for so long, if others will do.
const REFUSAL_AGE: Duration = Duration::from_secs(10);
/// Most reasons given when nobody will do.
const REASONS_MAX: usize = 5;
/// A node that failed with a program, and why.
pub(crate) struct Failed {
    /// The name of the node.
    pub(crate) node: String,
    /// What failed there.
    pub(crate) why: String,
}

/// The room that is wanted on a node that was named.
pub(crate) struct Target<'a> {
    /// The name of the node.
    pub(crate) name: &'a str,
    /// The node's CPU may lack what this one's has.
    pub(crate) any_cpu: bool,
    /// The kind of the room.
    pub(crate) kind: RoomKind,
}

impl<'a> Target<'a> {
    /// The room for a process that runs already.
    pub(crate) fn of_move(name: &'a str, any_cpu: bool) -> Target<'a> {
        Target { name, any_cpu, kind: RoomKind::Home }
    }
}

/// A node that will have a program.
pub(crate) enum Chosen {
    /// The home of the program.
    Here,
    /// Another one, and a connection to the steward of the user's room there.
    There(String, Steward),
}

/// Connects to the steward of this user's room on a node that was named, one of the process'
/// `hosts`.
pub(crate) fn named(
    daemon: &Arc<Daemon>,
    owner: u32,
    target: &Target<'_>,
    hosts: &Hosts,
) -> Result<(String, Steward), Error> {
    let Target { name, any_cpu, kind } = *target;
    let me = daemon.me().name;
    if name == me {
        return Err(Refusal::Here { name: me }.into());
    }
    let member = daemon.living_soon(name)?;
    hosts.check(name)?;
    check_takes_guests(daemon, &member)?;
    let steward = rooms::steward_on(daemon, &member, Tenancy { owner, kind }, any_cpu)?;
    daemon.choices.add(name);
    Ok((member.name, steward))
}

/// Checks that a node takes guests: where the user has a room already, nobody else asks the node.
/// News of the node may be old, so this asks the node before giving it up.
///
/// # Errors
/// The node takes none.
fn check_takes_guests(daemon: &Arc<Daemon>, member: &Member) -> Result<(), Error> {
    let heard = daemon.table().load(member.id, Instant::now());
    if heard.is_none_or(|(load, _)| load.rooms_max > 0) {
        return Ok(());
    }
    let asked = async { Session::open(daemon, member).await?.ask(&PeerRequest::Facts).await };
    match daemon.runtime.block_on(asked) {
        Ok(PeerAnswer::Facts { facts, .. }) if facts.rooms_max == 0 => {
            Err(Refusal::NoGuests { name: member.name.clone() }.into())
        }
        _ => Ok(()),
    }
}

/// Says whether [`named`] would take this node, and which room the user has there; makes none.
pub(crate) fn rehearse(daemon: &Arc<Daemon>, owner: u32, name: &str, hosts: &Hosts) -> Result<Option<RoomId>, Error> {
    let member = daemon.living_soon(name)?;
    hosts.check(name)?;
    rooms::rehearse(daemon, &member, owner)
}

/// Chooses the node for a program of this user's, as the policy says, among those that have not
/// `failed` with it.
///
/// # Errors
/// No node but home is left.
pub(crate) fn best(daemon: &Arc<Daemon>, owner: u32, hosts: &Hosts, failed: &[Failed]) -> Result<Chosen, Error> {
    let me = daemon.me();
    while daemon.is_settling() && daemon.table().iter().all(|k| !k.alive) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mut candidates, mut reasons) = candidates(daemon, hosts);
    if !candidates.is_empty() || !reasons.is_empty() {
        hosts.check_any()?;
    }
    candidates.retain(|c| failed.iter().all(|f| f.node != c.name));
    reasons.splice(..0, failed.iter().map(|f| format!("{}: {}", f.node, f.why)));
    // Whoever asks for another node wants to hear why there is none.
    if !candidates.is_empty() && daemon.policy.settings().home {
        let load = daemon.load();
        let load = Load { rooms_max: load.rooms_max.max(1), ..load };
        candidates.push(Candidate { name: me.name.clone(), id: me.id, load: Some((load, Instant::now())) });
    }
    let (params, process) = (daemon.policy.params(), program_of(me.id));
    while let Some((best, placement)) = daemon.choices.take_best(&candidates, &process, &params, daemon.uptime_ms()) {
        if best == me.name {
            if candidates.len() == 1 {
                daemon.choices.take_back(&best);
                break;
            }
            daemon.policy.log(::policy::Entry::Placement(placement));
            return Ok(Chosen::Here);
        }
        let member = daemon.living(&best).map_err(Error::from);
        let steward = member
            .and_then(|member| rooms::steward_on(daemon, &member, Tenancy { owner, kind: RoomKind::Home }, false));
        match steward {
            Ok(mut steward) => {
                steward.decision_ms = Some(placement.at_ms);
                daemon.policy.log(::policy::Entry::Placement(placement));
                return Ok(Chosen::There(best, steward));
            }
            Err(e) => {
                daemon.choices.take_back(&best);
                candidates.retain(|c| c.name != best);
                reasons.push(e.chain());
            }
        }
    }
    if reasons.is_empty() {
        reasons.push(format!("{} is alone", me.name));
    }
    reasons.truncate(REASONS_MAX);
    Err(Refusal::Nobody { reasons: reasons.join("; ") }.into())
}

/// The living nodes that have not refused lately, and why the others are none.
pub(crate) fn candidates(daemon: &Daemon, hosts: &Hosts) -> (Vec<Candidate>, Vec<String>) {
    let now = Instant::now();
    let table = daemon.table();
    let speeds = &daemon.balance.speeds;
    let read = |id| {
        let (load, age) = table.load(id, now)?;
        let speed_milli = speeds.corrected(id, load.speed_milli);
        Some((Load { speed_milli, ..load }, now.checked_sub(age).unwrap_or(now)))
    };
    let living: Vec<Candidate> = table
        .iter()
        .filter(|k| k.alive)
        .map(|k| Candidate { name: k.member.name.clone(), id: k.member.id, load: read(k.member.id) })
        .collect();
    drop(table);
    let (mut candidates, mut reasons) = (Vec::new(), Vec::new());
    for candidate in living {
        if let Err(e) = hosts.check(&candidate.name) {
            reasons.push(e.chain());
        } else if candidate.load.is_some_and(|(load, _)| load.rooms_max == 0) {
            reasons.push(Refusal::NoGuests { name: candidate.name }.to_string());
        } else if let Some(refusal) = daemon.rooms.refused_lately(&candidate.name, REFUSAL_AGE) {
            reasons.push(refusal.to_string());
        } else {
            candidates.push(candidate);
        }
    }
    (candidates, reasons)
}
