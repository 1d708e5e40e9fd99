//! CPU time that a process had used before it came: the kernel here counts from nothing, and all
//! that tells of it is completed (`tracer/cpu_times.rs`, /proc, times(2)).

use super::guests::Guests;
use super::shared::Shared;
use image::{Image, Used};
use std::collections::HashMap;

/// USER_HZ is 100.
const NS_PER_TICK: u64 = 10_000_000;

/// What a process had used.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// The time that was used on all nodes.
    pub used: Used,
    /// Not counted by home's kernel.
    pub away: Used,
    /// Of each thread that came, everywhere and away, nanoseconds.
    threads: HashMap<i32, (u64, u64)>,
}

impl Before {
    /// As its image says.
    pub fn of(image: &Image) -> Before {
        let threads = image.threads.iter().map(|t| (t.tid, (t.used_ns, t.used_away_ns))).collect();
        Before { used: image.process.used, away: image.process.used_away, threads }
    }

    /// Of a thread.
    pub fn thread_ns(&self, tid: i32) -> u64 {
        self.threads.get(&tid).map_or(0, |(used_ns, _)| *used_ns)
    }
}

/// Completes the image of a process that leaves, which says what it used here.
pub fn complete(room: &Shared, image: &mut Image) {
    let guests = room.guests();
    let before = guests.get(image.process.pid).and_then(|guest| guest.before.clone()).unwrap_or_default();
    image.process.used_away = image.process.used.and(before.away);
    image.process.used = image.process.used.and(before.used);
    for thread in &mut image.threads {
        let (used_ns, away_ns) = before.threads.get(&thread.tid).copied().unwrap_or_default();
        thread.used_away_ns = thread.used_ns.saturating_add(away_ns);
        thread.used_ns = thread.used_ns.saturating_add(used_ns);
    }
}

fn ticks(used: Used) -> (u64, u64) {
    (used.user_ns / NS_PER_TICK, used.system_ns / NS_PER_TICK)
}

/// What a process had used when it came, ticks: user and system.
pub fn ticks_before(guests: &Guests, pid: i32) -> (u64, u64) {
    ticks(guests.get(pid).and_then(|guest| guest.before.as_ref()).map_or_else(Used::default, |before| before.used))
}

/// The part of it that home's kernel does not count.
pub fn ticks_away(guests: &Guests, pid: i32) -> (u64, u64) {
    ticks(guests.get(pid).and_then(|guest| guest.before.as_ref()).map_or_else(Used::default, |before| before.away))
}
