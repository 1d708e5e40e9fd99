//! Processes that run on this node, their home, and that the policy may send away: what it had
//! placed elsewhere and has come back, and what belongs to users who have opted in.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use ::policy::{Scope, Settings};
use control_protocol::steward::Guest;

use crate::balance::ledger::Balance;

/// Most processes that are considered.
const PROCESSES_MAX: usize = 1024;
/// CLOCK_TICKS of the kernel's interface (USER_HZ) are 100 a second.
pub(crate) const TICK_US: u64 = 10_000;
const PAGE_BYTES: u64 = 4096;

/// Those of them that are not `away`.
pub(crate) fn processes(settings: &Settings, balance: &Balance, away: &HashSet<i32>) -> Vec<Guest> {
    let any = settings.scope == Scope::Users || !settings.users.is_empty() || !balance.trees.is_empty();
    let came_back = balance.placed.remembered();
    let meant = |pid: &i32| {
        let uid = fs::metadata(format!("/proc/{pid}")).ok().map(|m| m.uid());
        uid.is_some_and(|uid| settings.in_scope(uid, came_back.contains(pid) || balance.trees.has(*pid)))
    };
    let pids: Vec<i32> = if any { all() } else { came_back.iter().copied().collect() };
    let pids = pids.into_iter().filter(|pid| !away.contains(pid) && meant(pid));
    pids.filter_map(look).take(PROCESSES_MAX).collect()
}

/// The numbers of all processes of this machine.
pub(crate) fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// What /proc says of it; `None` if it has ended.
pub(crate) fn look(pid: i32) -> Option<Guest> {
    let uid = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, in parentheses, come the state (field 3) and so on.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<u64>().ok());
    // One that a debugger holds is stopped.
    let state = match fields.first()?.chars().next()? {
        'Z' | 'X' => return None,
        't' => 'T',
        state => state,
    };
    Some(Guest {
        pid,
        uid,
        state,
        cpu_us: (number(14)? + number(15)?) * TICK_US,
        rss_bytes: number(24)? * PAGE_BYTES,
        threads: u32::try_from(number(20)?).ok()?,
        calls: 0,
        command: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_meant_is_looked_at() {
        let own = i32::try_from(std::process::id()).unwrap();
        let (balance, mut settings) = (Balance::default(), Settings::default());
        let listed = |settings: &Settings, balance: &Balance, away: &[i32]| {
            let away = away.iter().copied().collect();
            processes(settings, balance, &away).iter().any(|guest| guest.pid == own)
        };
        assert!(!listed(&settings, &balance, &[]));
        balance.trees.add(own);
        assert!(listed(&settings, &balance, &[]));
        assert!(balance.trees.remove(own) && !listed(&settings, &balance, &[]));
        balance.placed.add(own);
        assert!(listed(&settings, &balance, &[]) && !listed(&settings, &balance, &[own]));
        settings.set("scope", "users").unwrap();
        let ordinary = fs::metadata("/proc/self").unwrap().uid() >= 1000;
        assert_eq!(listed(&settings, &Balance::default(), &[]), ordinary);
        let found = look(own).unwrap();
        assert!(found.rss_bytes > 0 && found.threads > 0);
    }
}
