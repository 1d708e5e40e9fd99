//! What the bodies use, for `tern ps` at home.

use crate::state::shared::Shared;
use room_protocol::ToHome;
use room_protocol::message::BodyUsage;

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

fn usage(pid: i32, host: i32) -> Option<BodyUsage> {
    let status = os::process::status(host).ok()?;
    let cpu_us = os::process::cpu_us(host).ok()?;
    Some(BodyUsage { pid, state: status.state, cpu_us, rss_bytes: status.rss_bytes, threads: status.threads })
}
