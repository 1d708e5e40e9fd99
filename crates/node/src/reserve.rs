//! What is kept for a process at the node that it goes to because its user says so: memory,
//! descriptors and processes. It is kept before anything of the process is sent, so that a move
//! kills no stranger there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::policy::Reservation;
use control_protocol::peer::{Need, PeerRequest};
use control_protocol::steward::{Guest, RoomId};
use rustix::process::{Resource, getrlimit};
use tokio::sync::oneshot;

use crate::balance::admission;
use crate::daemon::Daemon;
use crate::dial::Session;
use crate::{Error, at_home, choices};

/// A node is reminded so often of what it keeps: well within the time after which it forgets.
const REMINDED_EVERY: Duration = Duration::from_secs(10);
/// Kept for a program that begins, of which nothing is known, MiB.
const PROGRAM_MIB: u32 = 32;
/// A node that told of so much free memory, beyond what it keeps for itself, is not asked before a
/// program begins there: so many programs may begin on it before it tells again.
const PLENTY_MIB: u32 = 32 * PROGRAM_MIB;
/// Age beyond which a node's report is not relied on.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// Descriptors, and processes, that a node keeps for itself.
const DESCRIPTORS_KEPT: u64 = 256;
const TASKS_KEPT: u64 = 32;

/// A reservation. Dropping it gives the resources back.
pub(crate) struct Kept {
    /// Dropped, it ends the task that reminds the node.
    _held: Option<oneshot::Sender<()>>,
    here: Option<(Arc<Daemon>, u64)>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some((daemon, process)) = &self.here {
            admission::settle(daemon, daemon.me().id, *process, false);
        }
    }
}

/// What a process needs that runs at home (`away`: it runs elsewhere, where it uses this).
pub(crate) fn need_of(pid: i32, away: Option<&Guest>) -> Need {
    let at_home = if away.is_none() { at_home::look(pid) } else { None };
    let guest = away.or(at_home.as_ref());
    let mib = |bytes: u64| u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX);
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    Need {
        process: u64::try_from(pid).unwrap_or(0),
        memory_mib: guest.map_or(0, |guest| mib(guest.rss_bytes)),
        descriptors: descriptors as u64,
        tasks: guest.map_or(1, |guest| u64::from(guest.threads)),
    }
}

/// Keeps room for a process at the node `to`, in this room of its; at home, if there is none.
///
/// # Errors
/// [`Error::Short`] without `force`; the node does not answer.
pub(crate) fn keep(
    daemon: &Arc<Daemon>,
    to: Option<(&str, Option<RoomId>)>,
    need: Need,
    force: bool,
) -> Result<Kept, Error> {
    match to {
        Some((node, room)) => keep_there(daemon, node, PeerRequest::Reserve { need, room, force }, need),
        None => {
            let me = daemon.me();
            judge(daemon, me.id, &need, None, force).map_err(|why| short(me.name, &need, why))?;
            Ok(Kept { _held: None, here: Some((Arc::clone(daemon), need.process)) })
        }
    }
}

/// Keeps a little room for a program that is to begin on this node. One that has told of plenty is
/// not asked.
///
/// # Errors
/// As for [`keep`].
pub(crate) fn keep_for_program(daemon: &Arc<Daemon>, pid: i32, on: &str, force: bool) -> Result<Option<Kept>, Error> {
    if on == daemon.me().name || force || has_plenty(daemon, on) {
        return Ok(None);
    }
    let process = u64::try_from(pid).unwrap_or(0);
    let need = Need { process, memory_mib: PROGRAM_MIB, descriptors: 3, tasks: 1 };
    keep(daemon, Some((on, None)), need, force).map(Some)
}

fn has_plenty(daemon: &Daemon, on: &str) -> bool {
    let Ok(member) = daemon.living(on) else { return false };
    let told = daemon.table().load(member.id, Instant::now());
    told.filter(|(_, age)| *age < TOLD_WITHIN).is_some_and(|(load, _)| {
        let own = choices::view(member.id, &load, 0);
        let kept_mib = u64::from(own.memory_mib) * u64::from(daemon.policy.params().low_memory_milli) / 1000;
        u64::from(own.free_mib) >= kept_mib + u64::from(PLENTY_MIB)
    })
}

fn short(node: String, need: &Need, why: String) -> Error {
    Error::Short { node, pid: i32::try_from(need.process).unwrap_or(0), why }
}

fn keep_there(daemon: &Arc<Daemon>, node: &str, request: PeerRequest, need: Need) -> Result<Kept, Error> {
    let member = daemon.living_soon(node)?;
    let mut session = daemon.runtime.block_on(async {
        let mut session = Session::open(daemon, &member).await?;
        session.ask(&request).await?;
        Ok::<_, Error>(session)
    });
    if let Err(Error::Refused { node, reason }) = session {
        session = Err(short(node, &need, reason));
    }
    let session = session?;
    let (held, released) = oneshot::channel();
    daemon.runtime.spawn(remind(session, request, need.process, released));
    Ok(Kept { _held: Some(held), here: None })
}

/// Reminds a node of what it keeps until that is released, and then tells it so. A node that does
/// not answer forgets by itself.
async fn remind(mut session: Session, request: PeerRequest, process: u64, mut released: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            _ = &mut released => break,
            () = tokio::time::sleep(REMINDED_EVERY) => {}
        }
        if let Err(e) = session.ask(&request).await {
            tracing::info!("what is kept for process {process}: {}", e.chain());
        }
    }
    if let Err(e) = session.ask(&PeerRequest::Settle { process, has_come: false }).await {
        tracing::info!("what was kept for process {process}: {}", e.chain());
    }
}

/// Keeps here what a process of the node `from` needs; or says what is short.
pub(crate) fn judge(daemon: &Daemon, from: u64, need: &Need, room: Option<RoomId>, force: bool) -> Result<(), String> {
    if !force {
        descriptors(need.descriptors)?;
        tasks(need.tasks, room)?;
    }
    let wanted = Reservation { from, process: need.process, memory_mib: need.memory_mib, force };
    admission::reserve(daemon, wanted).map_err(|to_give_mib| {
        format!("it needs {} MiB of memory, and {to_give_mib} MiB are available to guests", need.memory_mib)
    })
}

fn descriptors(needed: u64) -> Result<(), String> {
    // What a body may have at most, it has from this daemon through its room.
    let own = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let numbers = numbers("/proc/sys/fs/file-nr");
    let [open, unused, most] = numbers[..] else { return Ok(()) };
    let available = own.min(most.saturating_sub(open.saturating_sub(unused)).saturating_sub(DESCRIPTORS_KEPT));
    enough("open descriptors", needed, available)
}

fn tasks(needed: u64, room: Option<RoomId>) -> Result<(), String> {
    let group = room.and_then(|room| os::cgroup::Group::open(&control_protocol::paths::room_group(room)).ok());
    let in_room = group.and_then(|group| group.free_tasks()).unwrap_or(u64::MAX);
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    // Behind the averages: those that run, a stroke, and all.
    let now = loads.split([' ', '/']).nth(4).and_then(|all| all.parse::<u64>().ok());
    let most = numbers("/proc/sys/kernel/threads-max").first().copied();
    let in_machine = now.zip(most).map_or(u64::MAX, |(now, most)| most.saturating_sub(now));
    enough("processes and threads", needed, in_room.min(in_machine.saturating_sub(TASKS_KEPT)))
}

fn enough(of_what: &str, needed: u64, available: u64) -> Result<(), String> {
    if needed <= available {
        return Ok(());
    }
    Err(format!("it needs {needed} {of_what}, and {available} are available to guests"))
}

fn numbers(file: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_said_with_its_numbers() {
        assert_eq!(enough("processes", 3, 3), Ok(()));
        let said = enough("processes", 4, 3).unwrap_err();
        assert_eq!(said, "it needs 4 processes, and 3 are available to guests");
        assert!(descriptors(1).is_ok() && descriptors(u64::MAX).is_err());
        assert!(tasks(1, None).is_ok() && tasks(u64::MAX, Some(RoomId([1; 16]))).is_err());
    }

    #[test]
    fn this_process_needs_memory_and_descriptors() {
        let need = need_of(std::process::id() as i32, None);
        assert!(need.memory_mib > 0 && need.descriptors >= 3 && need.tasks > 0, "{need:?}");
    }
}
