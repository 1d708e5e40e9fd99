//! Sending guests away on the owner's word. Only their homes can bring them back, so these are
//! asked; what a home cannot take back, or a home that does not answer, is told by name, and the
//! owner may end such guests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use control_protocol::facts::Availability;
use control_protocol::guests::{HostedGuest, Insist, LeaveReason, Leaving, TAKEN_BACK_MAX, TakenBack, Whom};
use control_protocol::peer::{PeerAnswer, PeerRequest};

use crate::daemon::Daemon;
use crate::dial::Session;
use crate::{Error, guests};

/// While this node takes no guests, those that are left are looked for so often ...
const LOOKED_FOR_EVERY: Duration = Duration::from_secs(2);
/// ... and those that stayed are tried again every so many times.
const AGAIN_EVERY: u32 = 15;

/// An order of the owner's.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The guests that are meant.
    pub(crate) whom: Whom,
    /// What becomes of those that stay.
    pub(crate) insist: Insist,
}

/// All guests, with what was last heard about their leaving.
pub(crate) fn listed(daemon: &Daemon) -> Vec<HostedGuest> {
    let suspended_ms = |home: &str| {
        let table = daemon.table();
        let spell = table.by_name(home)?.suspended?;
        Some(u64::try_from(spell.since.elapsed().as_millis()).unwrap_or(u64::MAX))
    };
    let told = |guest: HostedGuest| HostedGuest {
        leaving: daemon.evictions.of(&guest),
        home_suspended_ms: suspended_ms(&guest.home),
        ..guest
    };
    guests::list(daemon).into_iter().map(told).collect()
}

/// Sends guests home, or goes on with that; those that are still here, each with what becomes of
/// it.
pub(crate) fn evict(daemon: &Arc<Daemon>, order: &Order) -> Vec<HostedGuest> {
    let mut meant = guests::list(daemon);
    meant.retain(|guest| match &order.whom {
        Whom::All => true,
        Whom::Home(home) => guest.home == *home,
        Whom::Pid(pid) => guest.pid == *pid,
    });
    let mut of_homes: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for guest in &meant {
        of_homes.entry(guest.home.clone()).or_default().push(guest.home_pid);
    }
    let asking = Asking { of_homes, again: order.insist == Insist::Again, reason: reason(daemon) };
    let answers = daemon.runtime.block_on(ask_homes(daemon, asking));
    for guest in &mut meant {
        guest.leaving = Some(leaving(&guest.home, guest.home_pid, &answers));
    }
    daemon.evictions.note(&meant);
    if order.insist == Insist::Kill {
        meant
            .iter_mut()
            .filter(|guest| matches!(guest.leaving, Some(Leaving::Stays { .. })))
            .for_each(|guest| end(daemon, guest));
    }
    meant
}

/// A home's answer, or why there is none.
pub(crate) type Answered = Result<Vec<TakenBack>, String>;

fn leaving(home: &str, pid: i32, answers: &HashMap<String, Answered>) -> Leaving {
    let stays = |why: String| Leaving::Stays { why };
    match answers.get(home) {
        Some(Ok(taken)) => {
            let said = taken.iter().find(|t| t.pid == pid).map(|t| t.leaving.clone());
            match said {
                Some(Some(leaving)) => leaving,
                Some(None) => stays(format!("its home {home} does not know it")),
                // More than go into one message: next time.
                None => Leaving::Goes,
            }
        }
        Some(Err(why)) => stays(format!("its home does not take it back: {why}")),
        None => stays(format!("its home {home} was not asked")),
    }
}

/// A request to homes.
#[derive(Debug)]
pub(crate) struct Asking {
    /// PIDs there, by home.
    pub(crate) of_homes: BTreeMap<String, Vec<i32>>,
    /// Try again what stayed.
    pub(crate) again: bool,
    /// Why these guests must leave.
    pub(crate) reason: LeaveReason,
}

/// Asks homes to take these of their processes back, and how far they are.
pub(crate) async fn ask_homes(daemon: &Arc<Daemon>, asking: Asking) -> HashMap<String, Answered> {
    let Asking { of_homes, again, reason } = asking;
    ask(daemon, of_homes, |pids| PeerRequest::TakeBack { pids, again, reason }).await
}

/// Asks homes where these of their processes would go.
pub(crate) async fn ask_refuges(
    daemon: &Arc<Daemon>,
    of_homes: BTreeMap<String, Vec<i32>>,
) -> HashMap<String, Answered> {
    ask(daemon, of_homes, |pids| PeerRequest::WhereTo { pids }).await
}

async fn ask(
    daemon: &Arc<Daemon>,
    of_homes: BTreeMap<String, Vec<i32>>,
    request: impl Fn(Vec<i32>) -> PeerRequest,
) -> HashMap<String, Answered> {
    let mut asked = tokio::task::JoinSet::new();
    for (home, mut pids) in of_homes {
        pids.truncate(TAKEN_BACK_MAX);
        let (daemon, request) = (Arc::clone(daemon), request(pids));
        asked.spawn(async move {
            let answered = ask_home(&daemon, &home, request).await;
            (home, answered.map_err(|e| e.chain()))
        });
    }
    let mut answers = HashMap::new();
    while let Some(joined) = asked.join_next().await {
        match joined {
            Ok((home, answered)) => drop(answers.insert(home, answered)),
            Err(e) => tracing::warn!("asking homes to take guests back: {e}"),
        }
    }
    answers
}

fn reason(daemon: &Daemon) -> LeaveReason {
    match daemon.availability() {
        Availability::InUse => LeaveReason::InUse,
        availability if availability.takes_guests() => LeaveReason::Evicted,
        _ => LeaveReason::Closed,
    }
}

async fn ask_home(daemon: &Daemon, home: &str, request: PeerRequest) -> Result<Vec<TakenBack>, Error> {
    let member = daemon.living(home)?;
    match Session::open(daemon, &member).await?.ask(&request).await? {
        PeerAnswer::TakingBack(taken) => Ok(taken),
        _ => Err(Error::Refused { node: home.to_owned(), reason: "unexpected answer".into() }),
    }
}

fn end(daemon: &Daemon, guest: &mut HostedGuest) {
    match guests::kill(daemon, guest) {
        Ok(()) => {
            tracing::warn!("process {} of {} ended: this node's owner wants it gone", guest.home_pid, guest.home);
            guest.leaving = Some(Leaving::Goes);
        }
        Err(why) => guest.leaving = Some(Leaving::Stays { why: format!("it cannot be ended: {why}") }),
    }
}

/// While the owner takes no guests, or uses the machine, sends away those that are here, whoever
/// brought them, until none is left.
pub(crate) async fn keep_out(daemon: Arc<Daemon>) {
    let mut ticks = tokio::time::interval(LOOKED_FOR_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut round: u32 = 0;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = daemon.evictions.due.notified() => round = 0,
        }
        if !daemon.sends_guests_away() {
            round = 0;
            continue;
        }
        let insist = if round.is_multiple_of(AGAIN_EVERY) { Insist::Again } else { Insist::No };
        let order = Order { whom: Whom::All, insist };
        round = round.wrapping_add(1);
        let evicting = Arc::clone(&daemon);
        if let Err(e) = tokio::task::spawn_blocking(move || evict(&evicting, &order)).await {
            tracing::warn!("sending guests away: {e}");
        }
    }
}
