//! Where a process of this home goes that must leave a node at once: straight to another node with
//! a free processor, if this home's policy may choose one for it, else home.

use std::sync::Arc;

use ::policy::{Ask, Cause, NodeView, ProcessView};
use control_protocol::guests::{LeaveReason, TAKEN_BACK_MAX, TakenBack};
use control_protocol::history::By;
use control_protocol::moves::{How, MoveOptions};
use control_protocol::peer::{Member, PeerRequest};
use control_protocol::steward::Guest;

use crate::choices::Candidate;
use crate::daemon::Daemon;
use crate::dial::Session;
use crate::root_trust::Hosts;
use crate::{Error, choice, choices, moving};

/// So many nodes are asked before the process goes home.
const ASKED_MAX: usize = 3;
/// Demand of a process that must leave, thousandths of a core: what it will want is not known.
const DEMAND_MILLI: u32 = 1000;

/// An order to leave a node.
#[derive(Clone, Debug)]
pub(crate) struct Departing {
    /// The process, by its PID at home.
    pub(crate) pid: i32,
    /// The node that it leaves; any, if absent.
    pub(crate) from: Option<String>,
    /// Why it must leave.
    pub(crate) reason: LeaveReason,
}

/// Moves the process away. Gives where it is then.
///
/// # Errors
/// A guest that cannot leave, and runs where it was.
pub(crate) fn leave(daemon: &Arc<Daemon>, departing: &Departing, by: &By) -> Result<String, Error> {
    let pid = departing.pid;
    let options = match departing.reason {
        // The node is wanted at once: what it sends while the process runs, it sends too late.
        LeaveReason::InUse => MoveOptions { how: How::Flush, ..MoveOptions::default() },
        LeaveReason::Evicted | LeaveReason::Closed | LeaveReason::Drains => MoveOptions::default(),
    };
    if let Some(host) = find(daemon, departing) {
        let how = if options.how == How::Flush { How::Stop } else { options.how };
        let options = MoveOptions { how, ..options };
        let moved = moving::relocate_unasked(daemon, pid, Some(&host.member.name), options, by);
        host.settle(daemon, pid, moved.is_ok());
        match moved {
            Ok(_) => return Ok(host.member.name),
            Err(e) => tracing::info!("process {pid} does not go straight to {}: {}", host.member.name, e.chain()),
        }
    }
    let home = daemon.me().name;
    let moved = moving::relocate_unasked(daemon, pid, None, options, by);
    moved.map(|_| home.clone()).or_else(|e| match (moving::room_of(daemon, pid), &departing.from) {
        // Somebody else has moved it meanwhile.
        (Some(away), Some(from)) if away.node != *from => Ok(away.node),
        (None, _) if os::process::began(pid).is_ok() => Ok(home),
        _ => Err(e),
    })
}

/// A node that has promised to take a process.
struct Host {
    member: Member,
    session: std::sync::Mutex<Session>,
}

impl Host {
    /// Tells the node what came of its promise.
    fn settle(&self, daemon: &Daemon, pid: i32, has_come: bool) {
        let settle = PeerRequest::Settle { process: u64::try_from(pid).unwrap_or(0), has_come };
        let mut session = crate::locks::lock(&self.session);
        if let Err(e) = daemon.runtime.block_on(session.ask(&settle)) {
            tracing::debug!("{} keeps its promise for process {pid} in mind: {}", self.member.name, e.chain());
        }
    }
}

/// Says where these processes would go if they had to leave that node; nobody is asked.
pub(crate) fn foresee(daemon: &Arc<Daemon>, from: &str, pids: &[i32]) -> Vec<TakenBack> {
    let mut taken = Vec::new();
    let to = |pid: i32| {
        let departing = Departing { pid, from: Some(from.to_owned()), reason: LeaveReason::Drains };
        let (process, candidates) = candidates(daemon, &departing)?;
        let (best, _) = daemon.choices.take_best(&candidates, &process, &daemon.policy.params(), daemon.uptime_ms())?;
        taken.push(best.clone());
        Some(best)
    };
    let home = daemon.me().name;
    let mut to = to;
    let foreseen = pids.iter().take(TAKEN_BACK_MAX);
    let foreseen = foreseen
        .map(|&pid| TakenBack { pid, leaving: None, to: Some(to(pid).unwrap_or_else(|| home.clone())) })
        .collect();
    taken.iter().for_each(|name| daemon.choices.take_back(name));
    foreseen
}

/// The nodes that may be asked to take the process; none if this home's policy may not choose one.
fn candidates(daemon: &Arc<Daemon>, departing: &Departing) -> Option<(ProcessView, Vec<Candidate>)> {
    let Departing { pid, from, reason } = departing;
    let goes_straight = matches!(reason, LeaveReason::InUse | LeaveReason::Drains);
    if !goes_straight || !daemon.policy.settings().moves || !daemon.balance.placed.has(*pid) {
        return None;
    }
    let guest = moving::room_of(daemon, *pid)?.guest;
    let hosts = Hosts::of(daemon, *pid, false).ok()?;
    let mut candidates = choice::candidates(daemon, &hosts).0;
    candidates.retain(|c| {
        let has_a_core = c.load.is_some_and(|(load, _)| load.runnable_milli + DEMAND_MILLI / 2 < load.capacity_milli);
        Some(&c.name) != from.as_ref() && has_a_core
    });
    Some((view(daemon, &guest), candidates))
}

/// Finds another node that takes the process.
fn find(daemon: &Arc<Daemon>, departing: &Departing) -> Option<Host> {
    let pid = departing.pid;
    let (process, mut candidates) = candidates(daemon, departing)?;
    let params = daemon.policy.params();
    for _ in 0..ASKED_MAX {
        let (best, placement) = daemon.choices.take_best(&candidates, &process, &params, daemon.uptime_ms())?;
        match admitted(daemon, &best, &process) {
            Ok(host) => {
                daemon.policy.log(::policy::Entry::Placement(placement));
                return Some(host);
            }
            Err(e) => {
                tracing::info!("{best} does not take process {pid}: {}", e.chain());
                daemon.choices.take_back(&best);
                candidates.retain(|c| c.name != best);
            }
        }
    }
    None
}

fn view(daemon: &Daemon, guest: &Guest) -> ProcessView {
    let memory_mib = u32::try_from(guest.rss_bytes >> 20).unwrap_or(u32::MAX);
    ProcessView {
        id: u64::try_from(guest.pid).unwrap_or(0),
        memory_mib,
        carried_mib: memory_mib,
        ..choices::program_of(daemon.me().id)
    }
}

fn admitted(daemon: &Daemon, name: &str, process: &ProcessView) -> Result<Host, Error> {
    let member = daemon.living(name)?;
    let ask = Ask { process: process.clone(), from: NodeView::default(), cause: Cause::Evict, scale_ms: 1000 };
    let session = daemon.runtime.block_on(async {
        let mut session = Session::open(daemon, &member).await?;
        session.ask(&PeerRequest::Admit { ask }).await?;
        Ok::<_, Error>(session)
    })?;
    Ok(Host { member, session: std::sync::Mutex::new(session) })
}
