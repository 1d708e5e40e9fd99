//! The processes of other homes that run here, as this machine's kernel shows them: it needs
//! neither their homes nor their wardens, so that the owner sees them whatever these do.
//!
//! A guest is a descendant of a room's warden in a PID namespace of its own, where its number is
//! its PID at home. The first process of that namespace is tern's porter.

use std::collections::HashMap;
use std::fs;

use control_protocol::guests::HostedGuest;
use os::pidfd::PidFd;

use crate::at_home::{self, TICK_US};
use crate::daemon::Daemon;
use crate::hosted::{self, Hosted};

/// First process of a PID namespace.
const FIRST: i32 = 1;
/// So many generations lie between a warden and a guest at most: deeper ones have lost their
/// parents to the porter.
const GENERATIONS_MAX: usize = 4096;
/// Longest command line that is told, bytes.
const COMMAND_BYTES: usize = 4096;

/// Lists the guests, sorted by home and PID.
pub(crate) fn list(daemon: &Daemon) -> Vec<HostedGuest> {
    let rooms = hosted::living(&daemon.options.run_dir);
    if rooms.is_empty() {
        return Vec::new();
    }
    let wardens: HashMap<i32, &Hosted> = rooms.iter().filter_map(|room| Some((room.warden()?, room))).collect();
    let parents: HashMap<i32, i32> = at_home::all().into_iter().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let uptime_s = uptime_s();
    let room_of = |pid: i32| {
        let ancestors = std::iter::successors(Some(pid), |pid| parents.get(pid).copied()).skip(1);
        ancestors.take(GENERATIONS_MAX).find_map(|ancestor| wardens.get(&ancestor).copied())
    };
    let hosted = |pid: &i32| Some(look(*pid, room_of(*pid)?, uptime_s)).flatten();
    let mut guests: Vec<HostedGuest> = parents.keys().filter_map(hosted).collect();
    guests.sort_by(|a, b| (&a.home, a.home_pid).cmp(&(&b.home, b.home_pid)));
    guests
}

/// Ends a guest, and only that: its number may be another process' meanwhile.
///
/// # Errors
/// In words; none if it has ended.
pub(crate) fn kill(daemon: &Daemon, guest: &HostedGuest) -> Result<(), String> {
    let Ok(held) = PidFd::open(guest.pid) else { return Ok(()) };
    // What is held now is that guest if a look says so afterwards.
    let is_it =
        |found: &HostedGuest| (&found.home, found.home_pid, found.pid) == (&guest.home, guest.home_pid, guest.pid);
    if !list(daemon).iter().any(is_it) {
        return Ok(());
    }
    held.kill(libc::SIGKILL).map_err(|e| e.to_string())
}

fn look(pid: i32, room: &Hosted, uptime_s: f64) -> Option<HostedGuest> {
    let status = os::process::status(pid).ok()?;
    let (outer, home_pid) = (status.ns_tids.first()?, *status.ns_tids.last()?);
    // The warden's own children, if it has any, live where it does.
    if status.ns_tids.len() < 2 || *outer != pid || home_pid == FIRST {
        return None;
    }
    let seen = at_home::look(pid)?;
    let began_us = os::process::began(pid).ok()?.saturating_mul(TICK_US) as f64;
    Some(HostedGuest {
        pid,
        home: room.tenant.home.clone(),
        home_pid,
        uid: room.tenant.owner,
        state: status.state,
        cpu_us: seen.cpu_us,
        rss_bytes: status.rss_bytes,
        threads: status.threads,
        here_s: (uptime_s - began_us / 1e6).max(0.0) as u64,
        command: command(pid),
        leaving: None,
        home_suspended_ms: None,
    })
}

fn parent(pid: i32) -> Option<i32> {
    i32::try_from(hosted::parent(u32::try_from(pid).ok()?)?).ok()
}

fn command(pid: i32) -> String {
    let mut line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.truncate(COMMAND_BYTES);
    while line.last() == Some(&0) {
        line.pop();
    }
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    words.join(" ")
}

fn uptime_s() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split(' ').next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0)
}
