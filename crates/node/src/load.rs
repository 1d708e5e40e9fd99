//! How busy this node is.

use std::sync::Mutex;

use ::policy::{LoadIndex, MemoryIndex};
use control_protocol::facts::Load;
use os::share::{self, Share};

use crate::facts;
use crate::locks::lock;

/// Looks that make one sample of the index.
const LOOKS: u32 = 2;
/// Steps of one calibration (some milliseconds), and how many are made; the fastest counts.
const STEPS: u64 = 3_000_000;
const CALIBRATIONS: u32 = 5;
/// The stolen share of this much of the past counts, in samples: a lasting one, not a moment's.
const STEAL_SAMPLES: f64 = 5.0;

/// Who has processes here is told at once if what this node has of its cores changes by this part,
/// and hears of lesser changes as everybody does; ...
const NEWS: f64 = 0.2;
/// ... and as long as less than this share of its memory is free, thousandths.
const NEWS_FREE_MILLI: u64 = 150;

/// What was seen last.
pub(crate) struct Meter {
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    index: LoadIndex,
    memory: MemoryIndex,
    runnable: u32,
    looks: u32,
    load: Load,
    stolen: Option<(u64, u64)>,
    stolen_share: f64,
    /// What was told at once last, thousandths of a core.
    told_capacity_milli: u32,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter { seen: Mutex::new(Seen::default()) }
    }

    /// As it is told to others; rooms are not filled in.
    pub(crate) fn load(&self) -> Load {
        lock(&self.seen).load
    }

    /// For decisions of this node's own, thousandths.
    pub(crate) fn own_milli(&self) -> u32 {
        lock(&self.seen).index.own_milli()
    }

    /// A process has come that wants so much of a core, thousandths: it counts before it is
    /// measured.
    pub(crate) fn has_come(&self, demand_milli: u32) {
        lock(&self.seen).index.shift(f64::from(demand_milli) / 1e3);
    }

    /// `now_ms`: since the daemon started, the policy's milliseconds. True if this node has become
    /// much faster or slower, or its memory runs low.
    pub(crate) fn look(&self, now_ms: u64, share: &Share, speed_milli: u32) -> bool {
        let runnable = share.runnable();
        let mut seen = lock(&self.seen);
        seen.runnable += runnable;
        seen.looks += 1;
        if seen.looks < LOOKS && seen.load.cores != 0 {
            return false;
        }
        let sample = f64::from(seen.runnable) / f64::from(seen.looks);
        seen.index.sample(sample, now_ms);
        (seen.runnable, seen.looks) = (0, 0);
        seen.steal();
        let (memory_mib, available_mib) = memory(share);
        let available_mib = seen.memory.sample(available_mib, now_ms);
        let cores = facts::cores();
        let whole_milli = f64::from(cores) * 1000.0 * (1.0 - seen.stolen_share);
        let capacity_milli = share.cpu_quota_milli().unwrap_or(u32::MAX).min(whole_milli as u32).max(1);
        seen.load = Load {
            runnable_milli: seen.index.told_milli(),
            cores,
            available_mib,
            memory_mib,
            capacity_milli,
            speed_milli,
            pressure_milli: share.memory_pressure_milli(),
            ..Load::default()
        };
        seen.is_news(capacity_milli) || u64::from(available_mib) * 1000 < u64::from(memory_mib) * NEWS_FREE_MILLI
    }
}

impl Seen {
    fn is_news(&mut self, capacity_milli: u32) -> bool {
        let told_milli = f64::from(self.told_capacity_milli);
        let is_news = (f64::from(capacity_milli) - told_milli).abs() > told_milli * NEWS;
        if is_news {
            self.told_capacity_milli = capacity_milli;
        }
        is_news
    }

    /// Share of time that a hypervisor gives to others.
    fn steal(&mut self) {
        let now = share::stolen();
        if let (Some((all, stolen)), Some((all_then, stolen_then))) = (now, self.stolen) {
            let passed = all.saturating_sub(all_then).max(1) as f64;
            let share = (stolen.saturating_sub(stolen_then) as f64 / passed).clamp(0.0, 0.95);
            self.stolen_share += (share - self.stolen_share) / STEAL_SAMPLES;
        }
        self.stolen = now;
    }
}

/// Memory that programs could get at this moment, MiB.
pub(crate) fn available_mib() -> u32 {
    memory(&Share::find()).1
}

/// In all, and what programs could still get, MiB: of the machine, or of the group that holds this
/// node if that is less.
fn memory(share: &Share) -> (u32, u32) {
    let (mut all, mut available) = facts::memory_kib();
    if let Some(group) = share.memory() {
        all = all.min(group.limit / 1024);
        available = available.min(group.limit.saturating_sub(group.used) / 1024);
    }
    let mib = |kib: u64| u32::try_from(kib / 1024).unwrap_or(u32::MAX);
    (mib(all), mib(available))
}

fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Speed of one CPU, thousandths of the reference: by CPU time, so that neither other work nor a
/// quota disturbs it.
pub(crate) fn calibrate() -> u32 {
    let once = || {
        let start_ns = thread_cpu_ns();
        std::hint::black_box(::policy::work(std::hint::black_box(STEPS)));
        ::policy::speed_milli(STEPS, thread_cpu_ns().saturating_sub(start_ns))
    };
    (0..CALIBRATIONS).map(|_| once()).max().unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_that_changes_is_news_and_noise_is_none() {
        let mut seen = Seen { told_capacity_milli: 2000, ..Seen::default() };
        assert!(![2000, 1900, 1700, 2300].into_iter().any(|milli| seen.is_news(milli)));
        assert!(seen.is_news(500) && !seen.is_news(550) && seen.is_news(2000));
    }

    #[test]
    fn this_machine() {
        let meter = Meter::new();
        let share = Share::find();
        let speed_milli = calibrate();
        assert!((20..50_000).contains(&speed_milli), "{speed_milli}");
        assert!((0..4).filter(|second| meter.look(1000 * second, &share, speed_milli)).count() <= 2);
        let load = meter.load();
        assert!(load.cores > 0 && load.memory_mib > 0 && load.available_mib <= load.memory_mib, "{load:?}");
        assert!(load.capacity_milli > 0 && load.capacity_milli <= load.cores * 1000, "{load:?}");
    }
}
