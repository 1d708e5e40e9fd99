//! CPU time that a process had used before it came: the kernel here counts from nothing, and all
//! that tells of it is completed (`tracer/cpu_times.rs`, /proc, times(2)).

use image::{Image, Used};
use std::collections::HashMap;

/// CPU time in user mode and in the kernel, ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// The time in user mode.
    pub user: u64,
    /// The time in the kernel.
    pub system: u64,
}

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

/// Adds what a process had used before it came to its image, which says what it used here.
pub fn complete(before: &Before, image: &mut Image) {
    image.process.used_away = image.process.used.and(before.away);
    image.process.used = image.process.used.and(before.used);
    for thread in &mut image.threads {
        let (used_ns, away_ns) = before.threads.get(&thread.tid).copied().unwrap_or_default();
        thread.used_away_ns = thread.used_ns.saturating_add(away_ns);
        thread.used_ns = thread.used_ns.saturating_add(used_ns);
    }
}
