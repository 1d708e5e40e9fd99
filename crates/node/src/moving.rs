//! `tern move`: whose process it is, where it is, and who moves it.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use control_protocol::history::By;
use control_protocol::moves::{HopReport, MoveOptions, Sibling};
use control_protocol::peer::Need;
use control_protocol::steward::{Guest, LentSibling, Onward, RoomId, ToSteward};
use migration_plan::Pace;
use os::confinement::{self, Confinement};
use packet::Peer;

use crate::choice::{self, Target};
use crate::daemon::Daemon;
use crate::history::Route;
use crate::reserve::{self, Kept};
use crate::root_trust::Hosts;
use crate::steward::{Passed, Steward};
use crate::{Error, history, rooms, root_trust};

/// The superuser, for whom no process is another user's.
const ROOT: u32 = 0;

/// On whose behalf a process is moved.
#[derive(Clone, Copy)]
struct Asker<'a> {
    /// The user who asks.
    uid: u32,
    /// For the history of the process.
    by: &'a By,
    /// Socket of the tool that waits; `None` for the policy.
    tool: Option<BorrowedFd<'a>>,
}

/// A tool that waits for the outcome.
#[derive(Clone, Copy)]
pub(crate) struct Tool<'a> {
    /// The process at the other end.
    pub(crate) peer: Peer,
    /// The connection to the tool.
    pub(crate) socket: BorrowedFd<'a>,
}

/// A move that is wanted.
pub(crate) struct MoveOrder {
    /// PID of the process, at home.
    pub(crate) pid: i32,
    /// The name of the node; `None`: home.
    pub(crate) to: Option<String>,
    /// How its memory shall go.
    pub(crate) wish: MoveOptions,
    /// A process away whose memory is the same.
    pub(crate) like: Option<Sibling>,
}

/// Moves a process of this home, for the tool at this socket. The tool is told how far that is, and
/// may call it off.
pub(crate) fn relocate(daemon: &Arc<Daemon>, tool: Tool<'_>, order: &MoveOrder) -> Result<Vec<HopReport>, Error> {
    let uid = tool.peer.uid;
    check(tool.peer, order.pid)?;
    // Pages are read by users who could move the process there.
    order.like.iter().try_for_each(|like| check(tool.peer, like.pid))?;
    root_trust::check_asker(uid, order.wish.as_root)?;
    go(daemon, Asker { uid, by: &By::User(uid), tool: Some(tool.socket) }, order)
}

/// The same, without a tool that waits: `by` the policy, say.
pub(crate) fn relocate_unasked(
    daemon: &Arc<Daemon>,
    pid: i32,
    to: Option<&str>,
    wish: MoveOptions,
    by: &By,
) -> Result<Vec<HopReport>, Error> {
    go(daemon, Asker { uid: ROOT, by, tool: None }, &MoveOrder { pid, to: to.map(str::to_owned), wish, like: None })
}

fn go(daemon: &Arc<Daemon>, asker: Asker<'_>, order: &MoveOrder) -> Result<Vec<HopReport>, Error> {
    let MoveOrder { pid, wish, .. } = *order;
    let wish = limited(wish, daemon.policy.params().move_rate_kb_s);
    let me = daemon.me().name;
    let to = order.to.as_deref().filter(|node| *node != me);
    let at = room_of(daemon, pid);
    let from = at.as_ref().map_or(me.as_str(), |away| away.node.as_str()).to_owned();
    let there = to.unwrap_or(me.as_str());
    if from == there {
        return Err(Error::NotMoved { pid, why: format!("it runs on {there} already") });
    }
    let moved = match at {
        Some(away) => carry(daemon, asker, &away, to, wish),
        None => to.map_or(Ok(Vec::new()), |to| Ok(vec![out(daemon, asker, order, to, wish)?])),
    };
    // Processes that share memory moved along.
    let with = moved.iter().flatten().flat_map(|hop| &hop.with).copied();
    for pid in with.chain([pid]).collect::<BTreeSet<i32>>() {
        history::note_move(daemon, pid, Route { from: &from, to: there }, asker.by, &moved);
    }
    moved
}

/// Where a process of this home is, if it is not here.
pub(crate) struct Away {
    /// The name of the node.
    pub(crate) node: String,
    /// The steward of the room there.
    pub(crate) steward: Steward,
    /// What the process is and uses there.
    pub(crate) guest: Guest,
}

/// Moves a process from the node where it is to another one, or home (`None`).
fn carry(
    daemon: &Arc<Daemon>,
    asker: Asker<'_>,
    away: &Away,
    to: Option<&str>,
    wish: MoveOptions,
) -> Result<Vec<HopReport>, Error> {
    let Away { steward, guest, .. } = away;
    let pid = guest.pid;
    match to {
        Some(to) => on(daemon, asker, guest, Onto { steward, to }, wish),
        None => {
            let failed = |why: String| Error::NotMoved { pid, why };
            let _kept = kept(daemon, asker.tool, None, || reserve::need_of(pid, Some(guest)), wish.force)?;
            Ok(vec![
                steward.relocate(&ToSteward::Recall { pid, wish, family: !wish.alone }, asker.tool).map_err(failed)?,
            ])
        }
    }
}

/// A way from one node to another.
struct Onto<'a> {
    /// The steward of the room that the process leaves.
    steward: &'a Steward,
    /// The node to which it goes.
    to: &'a str,
}

/// From node to node: straight there, or by way of home if that cannot be.
fn on(
    daemon: &Arc<Daemon>,
    asker: Asker<'_>,
    guest: &Guest,
    Onto { steward: from, to }: Onto<'_>,
    wish: MoveOptions,
) -> Result<Vec<HopReport>, Error> {
    let pid = guest.pid;
    let failed = |why: String| Error::NotMoved { pid, why };
    // The room there is made while it still runs. The user with whom it entered counts, whatever it
    // has become. A steward of an older tern does not know.
    let owner = from.owner().or_else(|_| owner(pid))?;
    let hosts = Hosts::of(daemon, pid, wish.as_root)?;
    let (_, there) = choice::named(daemon, owner, &Target::of_move(to, wish.any_cpu), &hosts)?;
    let wish = MoveOptions { as_root: hosts.trust_root(to), ..wish };
    let _kept = kept(daemon, asker.tool, Some((to, there.room())), || reserve::need_of(pid, Some(guest)), wish.force)?;
    let why = if wish.by_home {
        "it was asked for".to_owned()
    } else {
        let address = daemon.living_soon(to)?.address;
        let beyond = Onward { room: there.room(), node: to.to_owned(), address, ticket: rand::random() };
        match from.pass(pid, wish, beyond, asker.tool).map_err(failed)? {
            Passed::There(leg) => return Ok(vec![leg]),
            Passed::Detour(why) => why,
        }
    };
    tracing::info!("process {pid} goes to {to} through home: {why}");
    // Processes that share memory come, and go on, together.
    let family = !wish.alone;
    let back = from.relocate(&ToSteward::Recall { pid, wish, family }, asker.tool).map_err(failed)?;
    let half = |why: String| failed(format!("it has come home, but does not go on to {to}: {why}"));
    let out = there
        .relocate(&ToSteward::Move { pid, wish, asker_uid: asker.uid, sibling: None }, asker.tool)
        .map_err(half)?;
    Ok(vec![HopReport { detour: Some(why), ..back }, out])
}

/// Room that is kept for a process where it goes, home or to a room, on a user's word; what the
/// policy moves has its target's promise already.
fn kept(
    daemon: &Arc<Daemon>,
    tool: Option<BorrowedFd<'_>>,
    to: Option<(&str, RoomId)>,
    need: impl FnOnce() -> Need,
    force: bool,
) -> Result<Option<Kept>, Error> {
    if tool.is_none() {
        return Ok(None);
    }
    let to = to.map(|(node, room)| (node, Some(room)));
    reserve::keep(daemon, to, need(), force).map(Some)
}

/// The lesser of the user's rate and the owner's.
fn limited(wish: MoveOptions, kb_s: u32) -> MoveOptions {
    let owner = Some(u64::from(kb_s) * 1000).filter(|rate| *rate > 0);
    let rate = wish.pace.rate.into_iter().chain(owner).min();
    MoveOptions { pace: Pace { rate, ..wish.pace }, ..wish }
}

/// What is checked of a process that is to leave home, before a node is looked at.
pub(crate) struct Leaving {
    /// The user in whose room it belongs.
    pub(crate) owner: u32,
    /// The nodes that may have it.
    pub(crate) hosts: Hosts,
}

impl Leaving {
    /// Checks process `pid`, which runs at home.
    ///
    /// # Errors
    /// It lives in a sandbox, or has ended.
    pub(crate) fn check(daemon: &Daemon, pid: i32, as_root: bool) -> Result<Leaving, Error> {
        confinement::check(pid).or_else(|confinement| match confinement {
            // The steward says what has become of the process.
            Confinement::Ended | Confinement::Unknown { .. } => Ok(()),
            confinement => Err(Error::Confined { pid, confinement }),
        })?;
        Ok(Leaving { owner: owner(pid)?, hosts: Hosts::of(daemon, pid, as_root)? })
    }
}

/// Says whether `tern move PID to` would be tried, for the user at `peer`: makes the same checks,
/// in the same order, and moves nothing. `to` is another node than the one where the process is.
/// What the process itself holds is not looked at here ([`crate::daemon::Options::stays`]).
///
/// # Errors
/// The reason for which it would be refused.
pub(crate) fn rehearse(daemon: &Arc<Daemon>, pid: i32, away: Option<&Guest>, to: &str) -> Result<(), Error> {
    let me = daemon.me().name;
    if to == me {
        return judge_here(daemon, pid, away);
    }
    let Leaving { owner, hosts } = Leaving::check(daemon, pid, false)?;
    let room = choice::rehearse(daemon, owner, to, &hosts)?;
    // It is given back at once.
    reserve::keep(daemon, Some((to, room)), reserve::need_of(pid, away), false).map(drop)
}

/// Likewise for a process that would come home.
fn judge_here(daemon: &Arc<Daemon>, pid: i32, away: Option<&Guest>) -> Result<(), Error> {
    reserve::keep(daemon, None, reserve::need_of(pid, away), false).map(drop)
}

fn out(
    daemon: &Arc<Daemon>,
    asker: Asker<'_>,
    order: &MoveOrder,
    to: &str,
    wish: MoveOptions,
) -> Result<HopReport, Error> {
    let pid = order.pid;
    let Leaving { owner, hosts } = Leaving::check(daemon, pid, wish.as_root)?;
    let (_, steward) = choice::named(daemon, owner, &Target::of_move(to, wish.any_cpu), &hosts)?;
    // The steward checks again when the process stands still: it may have become root's meanwhile.
    let wish = MoveOptions { as_root: hosts.trust_root(to), ..wish };
    let _kept = kept(daemon, asker.tool, Some((to, steward.room())), || reserve::need_of(pid, None), wish.force)?;
    let sibling = order.like.as_ref().and_then(|like| lent(daemon, owner, like, to));
    let left = steward
        .relocate(&ToSteward::Move { pid, wish, asker_uid: asker.uid, sibling }, asker.tool)
        .map_err(|why| Error::NotMoved { pid, why });
    // A pace that was set says nothing about the next one.
    left.inspect(|leg| {
        if wish.pace == Pace::default() {
            daemon.has_moved(pid, leg)
        }
    })
}

/// Has the room of a sibling lend its pages to the user's room on node `to`. `None`: all pages come
/// from home.
fn lent(daemon: &Arc<Daemon>, owner: u32, like: &Sibling, to: &str) -> Option<LentSibling> {
    let lent = || {
        // A node that may not host the sibling must not see its memory either.
        Hosts::of(daemon, like.pid, false)?.check(to)?;
        let failed = |why: String| Error::NotMoved { pid: like.pid, why };
        let address = daemon.living_soon(&like.node)?.address;
        let room = rooms::room_on(daemon, &like.node, owner).ok_or_else(|| failed("it is not there".into()))?;
        let at = Onward { room, node: like.node.clone(), address, ticket: rand::random() };
        let steward = Steward::connect(&daemon.options.run_dir, room).map_err(|e| failed(e.to_string()))?;
        let lend = ToSteward::Lend { pid: like.pid, ticket: at.ticket, to: to.to_owned() };
        steward.order(&lend, &[]).map_err(failed)?;
        Ok(LentSibling { pid: like.pid, at })
    };
    lent().inspect_err(|e: &Error| tracing::info!("{} lends no pages to {to}: {}", like.node, e.chain())).ok()
}

/// Returns the user in whose room a process of this home belongs.
fn owner(pid: i32) -> Result<u32, Error> {
    let status = os::process::status(pid).map_err(|e| Error::NotMoved { pid, why: e.to_string() })?;
    Ok(os::process::owner(&status.uid[..3]))
}

/// Users move their own processes: what they may signal and trace.
pub(crate) fn check(peer: Peer, pid: i32) -> Result<(), Error> {
    let owner = std::fs::metadata(format!("/proc/{pid}"))
        .map_err(|_| Error::NotMoved { pid, why: "there is no process of this number".into() })?
        .uid();
    if peer.uid != 0 && peer.uid != owner {
        return Err(Error::NotAllowed { what: "moving another user's process" });
    }
    let is_tern = std::fs::read_link(format!("/proc/{pid}/exe")).ok() == std::env::current_exe().ok();
    if pid == 1 || is_tern && room_less(pid) {
        return Err(Error::NotMoved { pid, why: "it keeps the machine or the cluster running".into() });
    }
    Ok(())
}

/// One of tern's own processes: not a deputy, whose memory is the blob alone.
fn room_less(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains("[heap]"))
}

/// Says whether these maps (proc_pid_maps(5)) may be a deputy's: the code that it runs lies in
/// memory without a file or name.
fn may_hold_blob(maps: &str) -> bool {
    maps.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        fields.next() == Some("r-xp")
            && fields.next().is_some()
            && fields.nth(1) == Some("0")
            && fields.next().is_none()
    })
}

/// Tells whether a process may be a deputy, by its memory.
pub(crate) fn may_be_away(pid: i32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
    maps.map_or(true, |maps| maps.is_empty() || may_hold_blob(&maps))
}

/// Where the process is; `None` if that is home.
///
/// A hundred processes that leave home at once for a hundred rooms would have ten thousand
/// questions asked. So nobody is asked about a process whose memory shows that it is no deputy.
pub(crate) fn room_of(daemon: &Daemon, pid: i32) -> Option<Away> {
    if !may_be_away(pid) {
        return None;
    }
    rooms::stewards(&daemon.options.run_dir).into_iter().find_map(|(_, steward)| {
        let (node, _, guests) = steward.list().ok()?;
        guests.into_iter().find(|g| g.pid == pid).map(|guest| Away { node, steward, guest })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_deputy_is_told_from_a_programs() {
        let program = "55d0c0a2f000-55d0c0a38000 r-xp 00002000 fe:00 1577  /usr/bin/cat\n\
                       7ffc1cd7d000-7ffc1cd7f000 r-xp 00000000 00:00 0     [vdso]\n\
                       7fdde954d000-7fdde9587000 rw-p 00000000 00:00 0 \n";
        let blob = "7fdde954c000-7fdde954d000 r-xp 00000000 00:00 0 \n";
        assert!(!may_hold_blob(program));
        assert!(may_hold_blob(blob));
        assert!(may_hold_blob(&format!("{program}{blob}")), "its memory may still be there, too");
    }
}
