//! Stops of deputies. Home's kernel stops them, as their parents expect; nobody but the parent is
//! told of it, so the steward looks at their states now and then, and closely while a stop of job
//! control is under way. SIGCONT is told by the deputy itself.

use crate::deputy::record::Phase;
use crate::deputy::table::DeputyTable;
use crate::deputy::thread::Thread;
use std::time::{Duration, Instant};

/// How often the states are looked at while nothing is expected: of SIGSTOP alone is nothing told.
const IDLE: Duration = Duration::from_millis(50);
/// How often while a deputy is about to stop.
const CLOSELY: Duration = Duration::from_millis(1);
/// Many deputies, and those of a busy machine, are looked at less often: between two looks passes
/// so many times what a look takes. A home of 15,000 processes has a hundred stewards, which would
/// otherwise use all of its processors for this alone.
const REST: u32 = 250;
/// The same while a deputy is about to stop.
const CLOSE_REST: u32 = 4;
/// A look is no longer away than this.
const LATEST: Duration = Duration::from_secs(1);
/// Every so many looks, calls are made again that a stop interrupted which came to nothing.
const AGAIN_EACH: u32 = 4;

/// The findings of one look at the deputies.
#[derive(Debug, Default)]
pub struct StopsSeen {
    /// PIDs of deputies that have stopped since the last look.
    pub stopped: Vec<i32>,
    /// How long until the next look; `None`: until a deputy is away.
    pub next: Option<Duration>,
}

/// When to look next.
pub struct Stops {
    due: Instant,
    /// Duration of the last look.
    took: Duration,
    looks: u32,
}

impl Stops {
    /// Nothing is looked at yet.
    pub fn new() -> Stops {
        Stops { due: Instant::now(), took: Duration::ZERO, looks: 0 }
    }

    /// Looks at the deputies of a room, if it is time.
    pub fn look(&mut self, table: &mut DeputyTable) -> StopsSeen {
        let away = || table.deputies.values().filter(|d| d.phase == Phase::Away);
        let (count, close) = (away().count(), away().any(|d| d.stopping && !d.stopped));
        if count == 0 {
            return StopsSeen::default();
        }
        let pause = pause(close, self.took);
        let now = Instant::now();
        self.due = self.due.min(now + pause);
        let mut stopped = Vec::new();
        if now >= self.due {
            self.due = now + pause;
            self.looks = self.looks.wrapping_add(1);
            stopped = look_at_all(table, self.looks.is_multiple_of(AGAIN_EACH));
            self.took = now.elapsed();
        }
        StopsSeen { stopped, next: Some(self.due - now) }
    }
}

/// The time between two looks, the last of which has taken so long.
fn pause(close: bool, took: Duration) -> Duration {
    let (least, rest) = if close { (CLOSELY, CLOSE_REST) } else { (IDLE, REST) };
    took.saturating_mul(rest).clamp(least, LATEST)
}

/// A body whose standard error is closed has been killed, or it goes on without it: that is known
/// by now.
const STDERR_KEPT: Duration = Duration::from_millis(500);

fn look_at_all(table: &mut DeputyTable, again: bool) -> Vec<i32> {
    for deputy in table.deputies.values_mut() {
        drop(deputy.stderr.take_if(|(since, _)| since.elapsed() > STDERR_KEPT));
    }
    let mut stopped = Vec::new();
    for (pid, deputy) in table.deputies.iter_mut().filter(|(_, d)| d.phase == Phase::Away && !d.stopped) {
        os::contain::on_account_of(*pid);
        if deputy.stops(*pid) {
            deputy.stopped = true;
            stopped.push(*pid);
        } else if again && !deputy.stopping {
            deputy.threads.values_mut().for_each(Thread::unpark);
        }
    }
    stopped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_cost_little_whatever_they_take() {
        let [few, many, stalled] = [100, 2000, 30_000_000].map(Duration::from_micros);
        assert_eq!([few, many, stalled].map(|took| pause(false, took)), [IDLE, Duration::from_millis(500), LATEST]);
        assert_eq!([few, many].map(|took| pause(true, took)), [CLOSELY, Duration::from_millis(8)]);
    }
}
