//! What the tool is answered, but for placing.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use control_protocol::coscheduling::JobOrder;
use control_protocol::drain::DrainOrder;
use control_protocol::guests::HostedGuest;
use control_protocol::peer::{PeerAnswer, PeerRequest};
use control_protocol::power::PowerOrder;
use control_protocol::sampling::Sampling;
use control_protocol::tool::{Answer, NodeRow, PresenceWord, PsRow, Request, Status};
use identity::{Grant, Invitations, Token};
use packet::Peer;

use crate::daemon::Daemon;
use crate::dial::Session;
use crate::moving::{MoveOrder, Tool};
use crate::owners::owner_or_root;
use crate::why::why;
use crate::{
    Error, account_names, accounts, calls, coscheduling, draining, evict, evictions, hosted, hosts, jobs, leave, log,
    moving, pair, policy_answers, power, queues, rooms, sampling, suspending, suspension,
};

/// Longest validity of an invitation, seconds: 30 days.
const VALID_MAX_S: u64 = 30 * 24 * 3600;
/// Most invitations in one answer.
const INVITATIONS_MAX: u32 = 1024;

/// `tool`: the socket of who asks.
pub(crate) fn answer(
    daemon: &Arc<Daemon>,
    peer: Peer,
    tool: BorrowedFd<'_>,
    request: Request,
) -> Result<Answer, Error> {
    let root_only = |what| if peer.uid == 0 { Ok(()) } else { Err(Error::NotAllowed { what }) };
    match request {
        Request::Nodes => Ok(Answer::Nodes(nodes(daemon))),
        Request::Ps => Ok(ps(daemon, peer)),
        Request::Why { pid, to } => why(daemon, peer, pid, to),
        Request::Calls { pid, family } => calls_of(daemon, peer, pid, family),
        Request::Move { pid, to, wish, like } => {
            let order = MoveOrder { pid, to, wish, like };
            Ok(Answer::Moved { legs: moving::relocate(daemon, Tool { peer, socket: tool }, &order)? })
        }
        Request::Doctor { node } => Ok(Answer::Findings(daemon.runtime.block_on(pair::examine(daemon, &node))?)),
        Request::Invite { valid_s, count, authority, loopback } => {
            root_only("tern invite")?;
            let (valid_s, count) = (valid_s.min(VALID_MAX_S), count.clamp(1, INVITATIONS_MAX));
            let invitations = daemon.identity.invitations()?;
            let address = daemon.me().address;
            if address.ip().is_loopback() && !loopback {
                return Err(Error::Loopback { address });
            }
            invite(daemon, &invitations, valid_s, count, Grant { authority })
        }
        Request::Leave { insist } => root_only("tern leave").and_then(|()| leave::leave(daemon, insist)),
        Request::Guests => Ok(Answer::Guests(guests(daemon, peer))),
        Request::Evict { whom, insist } => {
            root_only("tern evict")?;
            Ok(Answer::Guests(evict::evict(daemon, &evict::Order { whom, insist })))
        }
        Request::Drain { node, order } => {
            root_only("tern drain")?;
            drain(daemon, node, order)
        }
        Request::Power { node, order } => end(daemon, peer, &node, order),
        Request::SetNodes { nodes, changes } => set_nodes(daemon, peer, &nodes, &changes),
        Request::Suspend { for_ms } => suspend(daemon, peer, for_ms),
        Request::Wake => wake(daemon, peer),
        Request::Hosts(order) => Ok(Answer::Hosts(hosts::obey(daemon, peer, order)?)),
        Request::Evictions { lines } => evicted(daemon, peer, lines),
        Request::Usage { days } => Ok(Answer::Usage(accounts::report(daemon, peer, days))),
        Request::Sample { node, sampling } => sample(daemon, peer, &node, sampling),
        Request::Job(request) => Ok(Answer::Jobs(jobs::obey(daemon, peer, request)?)),
        Request::Coschedule(order) => coschedule(daemon, peer, &order),
        Request::Queues => Ok(Answer::Queues(queues::queues(daemon, peer))),
        Request::Presence(word) => Ok(note_presence(daemon, peer, word)),
        Request::Status => Ok(Answer::Status(status(daemon))),
        Request::Log { lines } => {
            root_only("tern log")?;
            tail(daemon, lines)
        }
        Request::Policy => Ok(policy_answers::show(daemon, peer)),
        Request::SetPolicy { changes } => policy_answers::set(daemon, peer, &changes),
        Request::Decisions { lines } => {
            root_only("tern log --decisions")?;
            policy_answers::decisions(daemon, lines)
        }
        Request::Pin { pid, pin } => {
            owner_or_root(peer, pid, "pinning another user's process")?;
            policy_answers::pin(daemon, pid, pin)
        }
        Request::Run { .. } => {
            Err(control_protocol::codec::CodecError::Malformed { why: "run needs a descriptor".into() }.into())
        }
    }
}

/// Shows guests that were sent away.
fn evicted(daemon: &Daemon, peer: Peer, lines: u32) -> Result<Answer, Error> {
    match peer.uid {
        0 => Ok(Answer::Log { lines: evictions::logged(&daemon.options.run_dir, lines)? }),
        _ => Err(Error::NotAllowed { what: "tern log --evictions" }),
    }
}

/// Has another node halt, or start again.
fn end(daemon: &Arc<Daemon>, peer: Peer, node: &str, order: PowerOrder) -> Result<Answer, Error> {
    match peer.uid {
        0 => power::ask(daemon, node, order).map(|()| Answer::Done),
        _ => Err(Error::NotAllowed { what: "halting a node" }),
    }
}

/// Says who of this home may use nodes.
fn set_nodes(daemon: &Daemon, peer: Peer, nodes: &[String], changes: &[String]) -> Result<Answer, Error> {
    match peer.uid {
        0 => daemon.rights.set(&daemon.identity, nodes, changes).map(|()| Answer::Done),
        _ => Err(Error::NotAllowed { what: "tern nodes --set" }),
    }
}

/// Has another node sample its queues.
fn sample(daemon: &Arc<Daemon>, peer: Peer, node: &str, order: Sampling) -> Result<Answer, Error> {
    match peer.uid {
        0 => Ok(Answer::Sampled(sampling::ask(daemon, node, order)?)),
        _ => Err(Error::NotAllowed { what: "tern netmon --all" }),
    }
}

/// Has other nodes coschedule tasks of this home.
fn coschedule(daemon: &Arc<Daemon>, peer: Peer, order: &JobOrder) -> Result<Answer, Error> {
    match peer.uid {
        0 => Ok(Answer::Coscheduled(coscheduling::pass_on(daemon, order)?)),
        _ => Err(Error::NotAllowed { what: "coscheduling processes that are away" }),
    }
}

fn note_presence(daemon: &Arc<Daemon>, peer: Peer, word: PresenceWord) -> Answer {
    tracing::info!(uid = peer.uid, "presence: {word:?}");
    daemon.note_presence(word);
    Answer::Done
}

fn suspend(daemon: &Arc<Daemon>, peer: Peer, for_ms: Option<u32>) -> Result<Answer, Error> {
    match peer.uid {
        0 => Ok(Answer::Suspended(suspending::suspend(daemon, for_ms))),
        _ => Err(Error::NotAllowed { what: "tern suspend" }),
    }
}

fn wake(daemon: &Arc<Daemon>, peer: Peer) -> Result<Answer, Error> {
    match peer.uid {
        0 => Ok(Answer::Suspended(suspending::wake(daemon))),
        _ => Err(Error::NotAllowed { what: "tern resume" }),
    }
}

fn tail(daemon: &Daemon, lines: u32) -> Result<Answer, Error> {
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    let lines = log::tail(&daemon.options.run_dir, lines).map_err(|e| Error::socket("read the log", e))?;
    Ok(Answer::Log { lines })
}

/// Drains this node, or asks another one to be drained.
fn drain(daemon: &Arc<Daemon>, node: Option<String>, order: DrainOrder) -> Result<Answer, Error> {
    let Some(node) = node.filter(|node| *node != daemon.me().name) else {
        return Ok(Answer::Drain(draining::obey(daemon, order)?));
    };
    let member = daemon.living_soon(&node)?;
    let asked = async { Session::open(daemon, &member).await?.ask(&PeerRequest::Drain(order)).await };
    match daemon.runtime.block_on(asked)? {
        PeerAnswer::Drain(report) => Ok(Answer::Drain(report)),
        _ => Err(Error::Refused { node, reason: "unexpected answer".into() }),
    }
}

/// The name of a node's group, if root has given it another than its own.
fn group_of(daemon: &Daemon, node: &str) -> Option<String> {
    let group = daemon.rights.of(node).group;
    (group != 0).then(|| account_names::name_of_group(group).unwrap_or_else(|| group.to_string()))
}

fn nodes(daemon: &Daemon) -> Vec<NodeRow> {
    let me = daemon.me();
    let now = Instant::now();
    let mut rows = vec![NodeRow {
        name: me.name.clone(),
        address: me.address.to_string(),
        alive: true,
        here: true,
        suspended: daemon.suspending.shown(),
        load: Some((daemon.load(), 0)),
        rights: daemon.rights.of(&me.name),
        group: group_of(daemon, &me.name),
    }];
    let table = daemon.table();
    rows.extend(table.iter().map(|known| {
        NodeRow {
            name: known.member.name.clone(),
            address: known.member.address.to_string(),
            alive: known.alive,
            here: false,
            suspended: known.suspended.map(suspension::shown),
            load: table
                .load(known.member.id, now)
                .map(|(load, age)| (load, u64::try_from(age.as_millis()).unwrap_or(u64::MAX))),
            rights: daemon.rights.of(&known.member.name),
            group: group_of(daemon, &known.member.name),
        }
    }));
    drop(table);
    rows.sort_by_cached_key(|row| natural(&row.name));
    rows
}

/// n2 before n10.
fn natural(name: &str) -> (String, u64, String) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem.to_owned(), name[stem.len()..].parse().unwrap_or(0), name.to_owned())
}

fn ps(daemon: &Daemon, peer: Peer) -> Answer {
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    let stewards = rooms::stewards(&daemon.options.run_dir);
    // All stewards ask their rooms at the same time.
    let asked: Vec<_> = stewards.iter().map(|(_, steward)| steward.ask_for_list()).collect();
    for ((id, steward), asked) in stewards.iter().zip(asked) {
        let unasked = |e| format!("the steward does not listen: {e}");
        match asked.map_err(unasked).and_then(|()| steward.listed()) {
            Ok((node, connected, guests)) => {
                let visible = guests.into_iter().filter(|g| peer.uid == 0 || g.uid == peer.uid);
                let silent_ms = steward.silent_ms();
                rows.extend(visible.map(|guest| PsRow { node: node.clone(), connected, silent_ms, guest }));
            }
            Err(e) => failures.push(format!("room {id}: {e}")),
        }
    }
    rows.sort_by_key(|r| r.guest.pid);
    let guests = if peer.uid == 0 { guests(daemon, peer) } else { Vec::new() };
    Answer::Ps { rows, failures, guests }
}

/// Everybody may know who uses this machine; what they run is for its owner.
fn guests(daemon: &Daemon, peer: Peer) -> Vec<HostedGuest> {
    let shown = |guest: HostedGuest| match peer.uid {
        0 => guest,
        _ => HostedGuest { command: String::new(), ..guest },
    };
    evict::listed(daemon).into_iter().map(shown).collect()
}

fn calls_of(daemon: &Arc<Daemon>, peer: Peer, pid: i32, family: bool) -> Result<Answer, Error> {
    owner_or_root(peer, pid, "asking after another user's process")?;
    Ok(Answer::Calls(calls::calls(daemon, pid, family)))
}

fn invite(
    daemon: &Daemon,
    invitations: &Invitations<'_>,
    valid_s: u64,
    count: u32,
    grant: Grant,
) -> Result<Answer, Error> {
    let now = SystemTime::now();
    let me = daemon.me();
    let tokens = (0..count).map(|_| {
        let (id, secret) = invitations.open(Duration::from_secs(valid_s), grant, now)?;
        let fingerprint = daemon.identity.authority_fingerprint();
        Ok(Token { inviter: daemon.identity.node().clone(), addresses: vec![me.address], id, secret, fingerprint }
            .to_string())
    });
    let expires_s = now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()) + valid_s;
    Ok(Answer::Invited { tokens: tokens.collect::<Result<_, Error>>()?, expires_s })
}

fn status(daemon: &Daemon) -> Status {
    let me = daemon.me();
    let table = daemon.table();
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Status {
        cluster: daemon.identity.about().cluster.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        address: me.address.to_string(),
        node: me.name,
        pid: std::process::id(),
        alive: count(table.iter().filter(|k| k.alive).count() + 1),
        known: count(table.iter().count() + 1),
        rooms_away: rooms::count(&daemon.options.run_dir),
        rooms_hosted: hosted::count(&daemon.options.run_dir),
        moved: daemon.balance.moved.load(Ordering::Relaxed),
    }
}
