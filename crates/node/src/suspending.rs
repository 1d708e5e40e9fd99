//! `tern suspend` and `tern resume`: this machine will not answer for a while, and is waited for.
//!
//! Before: guests leave as far as there is time; the rooms of this home, and those that are hosted
//! here, let their bodies stand still and count no silence as a loss; the other members know. A
//! member whose processes are hosted here tells its own stewards. Afterwards the same in reverse. A
//! member that cannot be reached yet is told as soon as it can.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control_protocol::peer::{Member, PeerRequest};
use control_protocol::steward::ToSteward;
use control_protocol::tool::SuspendReport;
use os::namespace::clock_ns;

use crate::daemon::Daemon;
use crate::dial::Session;
use crate::locks::lock;
use crate::members::Spell;
use crate::rooms;
use crate::{draining, guests};

/// Guests may take so long to leave before the machine is suspended.
const GUESTS_LEAVE_WITHIN: Duration = Duration::from_millis(700);
/// Members may take so long to answer.
const MEMBERS_ANSWER_WITHIN: Duration = Duration::from_millis(1800);
/// Members that do not answer afterwards are told again so often, ...
const TOLD_AGAIN_EVERY: Duration = Duration::from_millis(500);
/// ... and at most for so long.
const TOLD_AGAIN_FOR: Duration = Duration::from_secs(3600);
/// Whether the machine has slept is looked at so often.
const LOOKED_EVERY: Duration = Duration::from_millis(500);
/// A machine has slept if its clocks are apart by so much more, nanoseconds.
const SLEPT_NS: i64 = 1_000_000_000;

/// Readies everybody for the suspension of this node. Returns within some two seconds.
pub(crate) fn suspend(daemon: &Arc<Daemon>, for_ms: Option<u32>) -> SuspendReport {
    let for_ms = for_ms.unwrap_or(daemon.policy.params().suspend_max_ms);
    let since = Instant::now();
    let spell = Spell { since, until: since + Duration::from_millis(for_ms.into()) };
    let change = daemon.suspending.set(Some(spell));
    tracing::info!("this node is suspended for at most {} s", for_ms / 1000);
    daemon.swim.news();
    let telling = Arc::clone(daemon);
    let own = std::thread::spawn(move || tell_stewards(&telling, None, &ToSteward::Suspend { for_ms }));
    send_guests_away(daemon);
    let mut report = SuspendReport { for_ms, ..SuspendReport::default() };
    for (name, told) in daemon.runtime.block_on(tell_members(daemon, others(daemon), PeerRequest::Suspend { for_ms })) {
        report.note_member(name, told);
    }
    own.join().unwrap_or_default().into_iter().for_each(|(node, told)| report.note_room(node, told));
    let watching = Arc::clone(daemon);
    if let Err(e) = std::thread::Builder::new().name("suspended".into()).spawn(move || watch(&watching, change)) {
        tracing::warn!("the end of the suspension is not noticed: {e}");
    }
    report
}

/// Tells everybody that this node is there again.
pub(crate) fn wake(daemon: &Arc<Daemon>) -> SuspendReport {
    let change = daemon.suspending.set(None);
    tracing::info!("this node is not suspended any more");
    let mut report = SuspendReport::default();
    tell_stewards(daemon, None, &ToSteward::Wake).into_iter().for_each(|(node, told)| report.note_room(node, told));
    let mut silent = BTreeSet::new();
    for (name, told) in daemon.runtime.block_on(tell_members(daemon, others(daemon), PeerRequest::Wake)) {
        if told.is_err() {
            silent.insert(name.clone());
        }
        report.note_member(name, told);
    }
    if !silent.is_empty() {
        let telling = Arc::clone(daemon);
        daemon.runtime.spawn(async move { tell_again(&telling, change, silent).await });
    }
    daemon.swim.news();
    report
}

/// A member is about to be suspended: the rooms of this home there are, too.
///
/// # Errors
/// In words: a room has not confirmed.
pub(crate) fn is_suspended(daemon: &Daemon, member: u64, name: &str, for_ms: u32) -> Result<(), String> {
    let within = Duration::from_millis(for_ms.into());
    tracing::info!("{name} is suspended for at most {} s", for_ms / 1000);
    if daemon.table().suspend(member, within, Instant::now()) {
        daemon.members_have_changed();
    }
    all_told(tell_stewards(daemon, Some(name), &ToSteward::Suspend { for_ms }))
}

/// A member is there again: the rooms of this home there are, too.
///
/// # Errors
/// In words: a room has not been told.
pub(crate) fn is_awake(daemon: &Daemon, member: u64, name: &str) -> Result<(), String> {
    if daemon.table().wake(member, Instant::now()) {
        tracing::info!("{name} is not suspended any more");
        daemon.members_have_changed();
    }
    // A node that is suspended itself wakes its rooms later.
    if daemon.suspending.is_under_way() {
        return Ok(());
    }
    all_told(tell_stewards(daemon, Some(name), &ToSteward::Wake))
}

type Told = Result<(), String>;

fn all_told(told: Vec<(String, Told)>) -> Told {
    told.into_iter().try_for_each(|(_, told)| told)
}

/// Sends guests away, as far as they can leave in a moment.
fn send_guests_away(daemon: &Arc<Daemon>) {
    if lock(&daemon.drains.now).is_some() || guests::list(daemon).is_empty() {
        return;
    }
    draining::before_the_end(daemon, GUESTS_LEAVE_WITHIN);
    *lock(&daemon.drains.now) = None;
}

/// Gives this order to the stewards of all rooms, or of those on one node. Names the node of each.
fn tell_stewards(daemon: &Daemon, host: Option<&str>, order: &ToSteward) -> Vec<(String, Told)> {
    let stewards = rooms::stewards(&daemon.options.run_dir);
    std::thread::scope(|scope| {
        let tell = |steward: &crate::steward::Steward| {
            let (on, _, _) = steward.list().ok()?;
            let is_meant = host.is_none_or(|host| host == on);
            is_meant.then(|| (on, steward.order(order, &[])))
        };
        let told: Vec<_> = stewards.iter().map(|(_, steward)| scope.spawn(move || tell(steward))).collect();
        told.into_iter().filter_map(|told| told.join().ok().flatten()).collect()
    })
}

fn others(daemon: &Daemon) -> Vec<Member> {
    let me = daemon.me().id;
    daemon.everybody().into_iter().filter(|member| member.id != me).collect()
}

async fn tell_members(daemon: &Arc<Daemon>, members: Vec<Member>, request: PeerRequest) -> Vec<(String, Told)> {
    let mut asked = tokio::task::JoinSet::new();
    for member in members {
        let (daemon, request) = (Arc::clone(daemon), request.clone());
        asked.spawn(async move {
            let exchange = async { Session::open(&daemon, &member).await?.ask(&request).await };
            let told = match tokio::time::timeout(MEMBERS_ANSWER_WITHIN, exchange).await {
                Ok(answered) => answered.map(drop).map_err(|e: crate::Error| e.chain()),
                Err(_) => Err(format!("{} has not answered", member.name)),
            };
            (member.name, told)
        });
    }
    let mut told = Vec::new();
    while let Some(joined) = asked.join_next().await {
        told.extend(joined.ok());
    }
    told
}

/// Tells members that this node is there, until all know or it is suspended again.
async fn tell_again(daemon: &Arc<Daemon>, change: u64, mut silent: BTreeSet<String>) {
    let begun = Instant::now();
    while !silent.is_empty() && begun.elapsed() < TOLD_AGAIN_FOR && daemon.suspending.change() == change {
        tokio::time::sleep(TOLD_AGAIN_EVERY).await;
        let known: Vec<Member> = daemon.table().iter().map(|known| known.member.clone()).collect();
        let members: Vec<Member> = known.into_iter().filter(|member| silent.contains(&member.name)).collect();
        // Those that have left need not know.
        silent.retain(|name| members.iter().any(|member| member.name == *name));
        for (name, told) in tell_members(daemon, members, PeerRequest::Wake).await {
            if told.is_ok() {
                silent.remove(&name);
            }
        }
    }
}

/// How much longer the machine runs than its monotonic clock, which stands still while it sleeps,
/// nanoseconds.
fn slept_ns() -> i64 {
    clock_ns(libc::CLOCK_BOOTTIME) - clock_ns(libc::CLOCK_MONOTONIC)
}

/// Ends the suspension when the machine has slept and is awake again, whatever was to say so, or
/// when the rooms have ended.
fn watch(daemon: &Arc<Daemon>, change: u64) {
    let before_ns = slept_ns();
    while let Some(spell) = daemon.suspending.lasts(change) {
        if slept_ns() - before_ns > SLEPT_NS {
            tracing::info!("this machine has slept for {} s", (slept_ns() - before_ns) / 1_000_000_000);
        } else if Instant::now() < spell.until {
            std::thread::sleep(LOOKED_EVERY);
            continue;
        }
        wake(daemon);
        return;
    }
}

/// Notes what came of telling one member or room.
trait Note {
    fn note_member(&mut self, name: String, told: Told);
    fn note_room(&mut self, node: String, told: Told);
}

impl Note for SuspendReport {
    fn note_member(&mut self, name: String, told: Told) {
        match told {
            Ok(()) => self.members.push(name),
            Err(why) => self.failures.push(why),
        }
    }

    fn note_room(&mut self, node: String, told: Told) {
        match told {
            Ok(()) => self.rooms.push(node),
            Err(why) => self.failures.push(format!("room on {node}: {why}")),
        }
    }
}
