//! Hosts on request, at both ends: what programs of this home want and hold, and what this node has
//! promised. The rules are pure ([`::policy::Wish`], [`::policy::Grants`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::policy::accounts::Used;
use ::policy::{Availability, Claim, Granted, Holder, Host, RENEWED_EVERY_MS};
use control_protocol::hosts::{HeldHosts, HostsOrder, WANTED_MAX};
use control_protocol::peer::{PeerAnswer, PeerRequest};
use packet::Peer;

use crate::Error;
use crate::daemon::Daemon;
use crate::dial::Session;
use crate::hosted::{self, Process};
use crate::locks::lock;
use crate::owners::owner_or_root;
use crate::program_hosts::Owner;

/// Wishes that are not fulfilled are looked at so often.
const EVERY: Duration = Duration::from_millis(500);

/// Starts the thread that keeps hosts, and gets those that are still wanted.
pub(crate) fn start(daemon: Arc<Daemon>) -> std::io::Result<()> {
    let work = move || {
        let mut renewed = Instant::now();
        loop {
            std::thread::sleep(daemon.paced(EVERY));
            let renews = daemon.policy_ms(renewed.elapsed()) >= RENEWED_EVERY_MS;
            if renews {
                renewed = Instant::now();
            }
            for number in daemon.program_hosts.numbers() {
                tend(&daemon, number, renews);
            }
        }
    };
    std::thread::Builder::new().name("hosts".into()).stack_size(512 << 10).spawn(work).map(drop)
}

/// Keeps the hosts of one program, and gets those that it still wants.
fn tend(daemon: &Arc<Daemon>, number: u64, renews: bool) {
    let programs = &daemon.program_hosts;
    if !programs.is_alive(number) {
        return release(daemon, number, &[]);
    }
    if renews {
        for host in programs.with(number, |p| p.wish.held().to_vec()).unwrap_or_default() {
            ask(daemon, number, host, true);
        }
    }
    let user = programs.with(number, |p| p.uid).unwrap_or_default();
    let hosts = candidates(daemon, user);
    while let Some(host) = programs.with(number, |p| p.wish.next(&hosts, daemon.uptime_ms())).flatten() {
        ask(daemon, number, host, false);
    }
}

/// Asks a host to take this holder, or to keep it.
fn ask(daemon: &Arc<Daemon>, number: u64, host: u64, renews: bool) {
    let Some(claim) = daemon.program_hosts.with(number, |p| p.wish.claim(host)) else { return };
    let answer = send(daemon, host, PeerRequest::ClaimHost { claim, renews });
    let name = daemon.table().iter().find(|k| k.member.id == host).map(|k| k.member.name.clone()).unwrap_or_default();
    daemon.program_hosts.with(number, |p| {
        match &answer {
            Ok(_) => drop(p.names.insert(host, name.clone())),
            Err(e) if renews => {
                tracing::info!("process {} has lost its host {name}: {}", p.pid, e.chain());
                p.has_lost(name.clone(), e.chain());
            }
            Err(e) => tracing::debug!("{name} is no host of process {}: {}", p.pid, e.chain()),
        }
        p.wish.note(host, answer.map_err(drop), daemon.uptime_ms());
    });
}

fn send(daemon: &Arc<Daemon>, host: u64, request: PeerRequest) -> Result<Granted, Error> {
    let member = daemon.table().iter().find(|k| k.member.id == host && k.alive).map(|k| k.member.clone());
    let lost = || Error::Refused { node: host.to_string(), reason: "it is down".into() };
    let member = member.ok_or_else(lost)?;
    let asked = async { Session::open(daemon, &member).await?.ask(&request).await };
    match daemon.runtime.block_on(asked)? {
        PeerAnswer::Granted(granted) => Ok(granted),
        _ => Ok(Granted::Free),
    }
}

/// The nodes that take guests, and that this user may use; those that take guests at any time count
/// as unused for ever. A group of the user's does not count: nobody is asked which it has.
fn candidates(daemon: &Daemon, user: u32) -> Vec<Host> {
    let may_use = |name: &str| daemon.rights.of(name).check(user, &[]).is_ok();
    let (table, now) = (daemon.table(), Instant::now());
    let host = |id| {
        let (load, _) = table.load(id, now)?;
        let unused_s = if load.availability == Availability::Open { u32::MAX } else { load.unused_s };
        load.availability.takes_guests().then_some(Host { id, unused_s })
    };
    table.iter().filter(|k| k.alive && may_use(&k.member.name)).filter_map(|k| host(k.member.id)).collect()
}

/// Gives hosts of a program back: those named, or all.
fn release(daemon: &Arc<Daemon>, number: u64, names: &[String]) {
    let Some((holder, released)) = daemon.program_hosts.take_back(number, names) else { return };
    for host in released {
        if let Err(e) = send(daemon, host, PeerRequest::ReleaseHost { holder }) {
            tracing::debug!("a host is not given back, and forgets its holder later: {}", e.chain());
        }
    }
}

/// Does what a user asks about hosts.
pub(crate) fn obey(daemon: &Arc<Daemon>, peer: Peer, order: HostsOrder) -> Result<Vec<HeldHosts>, Error> {
    let holder_of = |pid: Option<i32>| {
        let parent = u32::try_from(peer.pid).ok().and_then(hosted::parent).and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.or(parent).unwrap_or(0);
        owner_or_root(peer, pid, "holding hosts for another user's process").map(|uid| (pid, uid))
    };
    match order {
        HostsOrder::List => {
            let all = daemon.program_hosts.list();
            Ok(all.into_iter().filter(|(uid, _)| peer.uid == 0 || *uid == peer.uid).map(|(_, held)| held).collect())
        }
        HostsOrder::Request { wanted, term, holder } => {
            let (pid, uid) = holder_of(holder)?;
            let ended = || Error::NotMoved { pid, why: "it has ended".into() };
            let process = u32::try_from(pid).ok().and_then(Process::of).ok_or_else(ended)?;
            let home = daemon.me().id;
            let number = daemon.program_hosts.wish(home, Owner { pid, uid, process }, wanted.min(WANTED_MAX), term);
            tend(daemon, number, false);
            let got = daemon.program_hosts.with(number, |p| p.wish.held().len()).unwrap_or(0);
            let (asked, got) = (u64::from(wanted.min(WANTED_MAX)), u64::try_from(got).unwrap_or(0));
            let used = Used { hosts_asked: asked, hosts_got: got, ..Used::default() };
            daemon.books.note(uid, &daemon.me().name, used);
            Ok(daemon.program_hosts.list().into_iter().map(|(_, held)| held).filter(|held| held.pid == pid).collect())
        }
        HostsOrder::Release { hosts, holder } => {
            let (pid, _) = holder_of(holder)?;
            let numbers = daemon.program_hosts.numbers_of(pid);
            numbers.into_iter().for_each(|number| release(daemon, number, &hosts));
            Ok(daemon.program_hosts.list().into_iter().map(|(_, held)| held).filter(|held| held.pid == pid).collect())
        }
    }
}

/// Judges a claim of another home's to this node.
pub(crate) fn judge(daemon: &Daemon, home: u64, claim: Claim, renews: bool) -> PeerAnswer {
    let claim = Claim { holder: Holder { home, ..claim.holder }, ..claim };
    let failed = |reason: &str| PeerAnswer::Failed { reason: reason.to_owned() };
    match daemon.availability() {
        availability if availability.takes_guests() => {}
        // Work of a holder that is not known as a guest's must not cost it the host.
        Availability::Busy if renews => {}
        Availability::InUse => return failed("somebody is at the machine"),
        Availability::Draining => return failed("the node is drained"),
        _ => return failed("it takes no guests now"),
    }
    let mut grants = lock(&daemon.grants);
    let now_ms = daemon.uptime_ms();
    if renews && !grants.keeps(claim.holder, now_ms) {
        return failed("another program had less than its share, and has it now");
    }
    match grants.claim(claim, now_ms) {
        Ok(granted) => PeerAnswer::Granted(granted),
        Err(_) => failed("another program holds it"),
    }
}
