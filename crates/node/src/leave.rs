//! `tern leave`: this home's processes come back, guests go home, and only then the node leaves.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use control_protocol::guests::{Insist, LeaveReason, Leaving, Remaining, Whom};
use control_protocol::peer::PeerRequest;
use control_protocol::tool::Answer;
use os::pidfd::PidFd;

use crate::daemon::Daemon;
use crate::dial::{self, Session};
use crate::evict::{self, Order};
use crate::recall::{self, Recall};
use crate::{Error, hosted, rooms};

/// Rooms are asked to close so many times before the node does not leave.
const VACATE_TRIES: u32 = 10;
const VACATE_EVERY: Duration = Duration::from_millis(200);

/// The daemon has left its cluster and ends once the tool has its answer.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Ends the daemon if what was done is that it left.
pub(crate) fn after_done(daemon: &Daemon) {
    if LEFT.load(Ordering::Acquire) {
        daemon.stop.notify_one();
    }
}

/// Leaves, if no process is away from here or hosted here any more; says which ones are.
pub(crate) fn leave(daemon: &Arc<Daemon>, insist: Insist) -> Result<Answer, Error> {
    daemon.departure.note();
    let mut tries = 0;
    loop {
        let mut remaining = come_home(daemon, insist);
        remaining.extend(send_away(daemon, insist));
        if !remaining.is_empty() {
            return Ok(Answer::Remaining(remaining));
        }
        match vacate(daemon) {
            Err(e) if tries == VACATE_TRIES => return Err(e),
            Err(e) if insist == Insist::Kill => tracing::info!("leaving all the same: {}", e.chain()),
            // A process that has just been placed, or is on its way here, is on its home's list
            // before it is seen here.
            Err(_) => {
                tries += 1;
                std::thread::sleep(VACATE_EVERY);
                continue;
            }
            Ok(()) => {}
        }
        // Rooms of homes that do not answer: nobody is in them.
        hosted::living(&daemon.options.run_dir).iter().for_each(hosted::Hosted::end);
        daemon.runtime.block_on(dial::say_goodbye(daemon));
        identity::forget(&daemon.options.state)?;
        tracing::info!("left the cluster");
        LEFT.store(true, Ordering::Release);
        return Ok(Answer::Done);
    }
}

/// Has the rooms closed that nobody is in: this home's, and those that this node hosts.
fn vacate(daemon: &Arc<Daemon>) -> Result<(), Error> {
    let refused = |reason: String| Error::Refused { node: daemon.me().name, reason };
    rooms::vacate(daemon, None).map_err(refused)?;
    if hosted::count(&daemon.options.run_dir) > 0 {
        daemon.runtime.block_on(ask_to_vacate(daemon))?;
    }
    Ok(())
}

/// Brings this home's processes back; those that are still away. [`Insist::Kill`] ends the ones
/// that stay.
fn come_home(daemon: &Arc<Daemon>, insist: Insist) -> Vec<Remaining> {
    let home = daemon.me().name;
    let away = recall::away(daemon);
    let pids: Vec<i32> = away.iter().map(|a| a.guest.pid).collect();
    let recall = Recall { from: None, again: insist == Insist::Again, reason: LeaveReason::Evicted };
    let taken = recall::take_back(daemon, recall, &pids);
    let leaving = |pid: i32| taken.iter().find(|t| t.pid == pid).and_then(|t| t.leaving.clone());
    let remaining = away.into_iter().map(|a| {
        let pid = a.guest.pid;
        let mut leaving = leaving(pid).unwrap_or(Leaving::Goes);
        if insist == Insist::Kill && matches!(leaving, Leaving::Stays { .. }) {
            leaving = end(pid, leaving);
        }
        Remaining { home: home.clone(), node: a.node, pid, command: a.guest.command, leaving }
    });
    remaining.collect()
}

/// Kills a process of this home's that cannot come back: its deputy here is the process.
fn end(pid: i32, stays: Leaving) -> Leaving {
    tracing::warn!("process {pid} ended: this node leaves, and it cannot come home");
    let killed = PidFd::open(pid).and_then(|held| held.kill(libc::SIGKILL));
    if killed.is_ok() { Leaving::Goes } else { stays }
}

fn send_away(daemon: &Arc<Daemon>, insist: Insist) -> Vec<Remaining> {
    let node = daemon.me().name;
    let guests = evict::evict(daemon, &Order { whom: Whom::All, insist });
    let remaining = guests.into_iter().map(|guest| Remaining {
        home: guest.home,
        node: node.clone(),
        pid: guest.home_pid,
        command: guest.command,
        leaving: guest.leaving.unwrap_or(Leaving::Goes),
    });
    remaining.collect()
}

async fn ask_to_vacate(daemon: &Arc<Daemon>) -> Result<(), Error> {
    let me = daemon.me();
    for member in daemon.everybody().into_iter().filter(|m| m.id != me.id) {
        match Session::open(daemon, &member).await {
            Ok(mut session) => drop(session.ask(&PeerRequest::Vacate).await?),
            Err(e) => tracing::info!("leaving: {}", e.chain()),
        }
    }
    Ok(())
}

/// Ends a membership that no daemon serves: rooms end, the identity is forgotten, and nobody is
/// told.
///
/// # Errors
/// A daemon serves after all; the identity cannot be removed.
pub fn abandon(state: &Path, run_dir: &Path) -> Result<(), Error> {
    let _no_daemon = crate::run_dir::prepare(run_dir)?;
    for (room, steward) in rooms::stewards(run_dir) {
        if let Err(why) = steward.close() {
            tracing::warn!("room {room} is not closed: {why}");
        }
    }
    hosted::living(run_dir).iter().for_each(hosted::Hosted::end);
    Ok(identity::forget(state)?)
}
