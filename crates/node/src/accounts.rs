//! The accounts of this home (`tern usage`): a thread looks now and then what was used, and notes
//! it. The rules are pure ([`::policy::accounts`]).
//!
//! The use of users' processes here comes from /proc, their use away from the rooms' stewards,
//! whom hosts tell what their kernels have counted. A room that is lost takes with it what it has
//! used since the last look.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::policy::Availability;
use ::policy::accounts::{State, Used, used_between};
use control_protocol::steward::RoomId;
use control_protocol::usage::{DayHours, UsageReport};
use packet::Peer;

use crate::daemon::Daemon;
use crate::steward::RoomUsage;
use crate::{guests, rooms};

/// The time between two looks at what users have used.
const EVERY: Duration = Duration::from_secs(10);
/// Every so many looks, the accounts are written.
const WRITTEN_EACH: u32 = 6;
/// From this load on, a machine that hosts nobody is in use, thousandths of a processor.
const IN_USE_MILLI: u32 = 500;

/// Starts the thread that keeps the accounts.
pub(crate) fn start(daemon: Arc<Daemon>) -> std::io::Result<()> {
    let work = move || {
        for looks in 1u32.. {
            look(&daemon);
            if looks.is_multiple_of(WRITTEN_EACH) {
                daemon.books.save(&daemon.identity);
            }
            std::thread::sleep(EVERY);
        }
    };
    std::thread::Builder::new().name("accounts".into()).stack_size(512 << 10).spawn(work).map(drop)
}

/// Gives the accounts of the last days as the asker may see them.
pub(crate) fn report(daemon: &Daemon, peer: Peer, days: u32) -> UsageReport {
    look(daemon);
    let first = os::local_time::day().saturating_sub(days.saturating_sub(1));
    let kept = daemon.books.kept();
    let rows = kept.accounts.rows(first).into_iter().filter(|row| peer.uid == 0 || row.user == peer.uid).collect();
    let hours = kept.accounts.hours(first).into_iter().map(|(day, hours)| DayHours { day, hours }).collect();
    UsageReport { home: daemon.me().name, rows, hours }
}

/// Notes what was used since the last look.
fn look(daemon: &Daemon) {
    let mut last = daemon.books.last();
    let (now, day) = (Instant::now(), os::local_time::day());
    let processes = last.processes();
    let rooms = rooms_used(daemon);
    let mut kept = daemon.books.kept();
    kept.note_rooms(day, rooms);
    let accounts = &mut kept.accounts;
    if let Some(at) = last.at {
        let passed_ms = u64::try_from(now.duration_since(at).as_millis()).unwrap_or(0);
        accounts.spend(day, state(daemon), passed_ms);
        let me = daemon.me().name;
        for (user, cpu_ms) in used_between(&last.processes, &processes) {
            accounts.add(day, user, &me, Used { cpu_ms, ..Used::default() });
        }
    }
    (last.at, last.processes) = (Some(now), processes);
}

/// Gives the use of this home's rooms so far, without those that do not answer.
fn rooms_used(daemon: &Daemon) -> Vec<(RoomId, Option<RoomUsage>)> {
    let stewards = rooms::stewards(&daemon.options.run_dir).into_iter();
    stewards.map(|(id, steward)| (id, steward.used().ok())).collect()
}

/// How this machine spends its time.
fn state(daemon: &Daemon) -> State {
    if !guests::list(daemon).is_empty() {
        return State::Hosting;
    }
    match daemon.availability() {
        Availability::InUse | Availability::Busy => State::InUse,
        _ if daemon.meter.own_milli() >= IN_USE_MILLI => State::InUse,
        _ => State::Idle,
    }
}
