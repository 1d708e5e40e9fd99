//! Reports the use of bodies, for `tern ps` at home, and their calls, for `tern trace`.

use crate::state::shared::Shared;
use room_protocol::ToHome;
use room_protocol::message::{BodyUsage, CALL_COUNTS_MAX, CallsOf};

/// Tells home what every body uses now.
pub fn tell(room: &Shared) {
    let hosts: Vec<(i32, i32)> = {
        let guests = room.guests();
        guests.pids().into_iter().filter_map(|pid| Some((pid, guests.host(pid)?.0))).collect()
    };
    let bodies = hosts.into_iter().filter_map(|(pid, host)| usage(pid, host)).collect();
    let room_us = room.group.get().and_then(|group| group.usage().cpu_us).unwrap_or(0);
    room.tell(&ToHome::Usage { bodies, room_us });
}

/// Tells home which calls a process, or its whole family, has made here, and how long they took.
pub fn tell_calls(room: &Shared, pid: i32, whose: CallsOf) {
    let counts = room.guests().get(pid).map(|guest| match whose {
        CallsOf::Process => guest.calls.own.clone(),
        CallsOf::Family => guest.calls.family.clone(),
    });
    let mut rows = counts.map_or_else(Vec::new, |counts| counts.rows());
    rows.truncate(CALL_COUNTS_MAX);
    room.tell(&ToHome::Calls { pid, rows });
}

fn usage(pid: i32, host: i32) -> Option<BodyUsage> {
    let status = os::process::status(host).ok()?;
    let cpu_us = os::process::cpu_us(host).ok()?;
    Some(BodyUsage { pid, state: status.state, cpu_us, rss_bytes: status.rss_bytes, threads: status.threads })
}
