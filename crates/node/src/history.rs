//! What has happened to this home's processes: notes it, and reads it for `tern why`.

use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;

use ::policy::accounts::Used;

use control_protocol::history::{By, EVENT_BYTES, Event, Happening};
use control_protocol::moves::HopReport;

use crate::Error;
use crate::daemon::Daemon;
use crate::hosted::parent;

/// So many generations are looked through for one that `tern run` placed.
const GENERATIONS: usize = 64;
/// Longest reason that is kept, bytes.
const WHY_BYTES: usize = 2000;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// Appends to the history of process `pid`. What cannot be noted is missed there, and nothing else.
pub(crate) fn note(daemon: &Daemon, pid: i32, what: Happening) {
    let directory = control_protocol::paths::history_dir(&daemon.options.run_dir);
    let noted = control_protocol::codec::encode(&Event { at_ms: now_ms(), what }, EVENT_BYTES)
        .map_err(|e| e.to_string())
        .and_then(|record| os::journal::append(&directory, pid, &record).map_err(|e| e.to_string()));
    if let Err(e) = noted {
        tracing::debug!("the history of process {pid} has a gap: {e}");
    }
}

/// The nodes of a move.
#[derive(Clone, Copy)]
pub(crate) struct Route<'a> {
    /// The node that the process leaves.
    pub(crate) from: &'a str,
    /// The node to which it goes.
    pub(crate) to: &'a str,
}

/// Notes how a move of process `pid` went.
pub(crate) fn note_move(daemon: &Daemon, pid: i32, route: Route<'_>, by: &By, moved: &Result<Vec<HopReport>, Error>) {
    let Route { from, to } = route;
    if moved.is_ok() {
        count_move(daemon, pid, route, by);
    }
    let what = match moved {
        Ok(legs) => {
            let how: Vec<&str> = legs.iter().map(|leg| leg.how.as_str()).collect();
            let freeze_us = legs.iter().fold(0, |sum: u64, leg| sum.saturating_add(leg.freeze_us));
            let (from, to, how) = (from.to_owned(), to.to_owned(), how.join(", then "));
            Happening::Moved { from, to, by: by.clone(), how, freeze_us }
        }
        Err(e) => {
            let why: String = e.chain().chars().take(WHY_BYTES / 4).collect();
            Happening::NotMoved { to: to.to_owned(), by: by.clone(), why }
        }
    };
    note(daemon, pid, what);
}

/// Counts that a process was moved, or sent away by the owner of the node that it leaves.
fn count_move(daemon: &Daemon, pid: i32, route: Route<'_>, by: &By) {
    let Some(user) = std::fs::metadata(format!("/proc/{pid}")).ok().map(|about| about.uid()) else { return };
    if matches!(by, By::Owner { .. }) {
        daemon.books.note(user, route.from, Used { evicted: 1, ..Used::default() });
    }
    if route.to != daemon.me().name {
        daemon.books.note(user, route.to, Used { moved: 1, ..Used::default() });
    }
}

/// What has happened to process `pid`, oldest first.
pub(crate) fn of(daemon: &Daemon, pid: i32) -> Vec<Event> {
    let records = os::journal::read(&control_protocol::paths::history_dir(&daemon.options.run_dir), pid);
    // An older tern wrote what cannot be read.
    records.iter().filter_map(|record| control_protocol::codec::decode(record).ok()).collect()
}

/// The `tern run` that started process `pid`: the process that it placed, which is `pid` itself or
/// an ancestor, and the event.
pub(crate) fn start_of(daemon: &Daemon, pid: i32) -> Option<(i32, Event)> {
    let above = |pid: &i32| {
        let parent = parent(u32::try_from(*pid).ok()?).filter(|parent| *parent > 1)?;
        i32::try_from(parent).ok()
    };
    std::iter::successors(Some(pid), above).take(GENERATIONS).find_map(|pid| {
        let placed = |event: &Event| matches!(event.what, Happening::Placed { .. });
        Some((pid, of(daemon, pid).into_iter().find(placed)?))
    })
}
