//! The priority of threads.

use cosched::ProcessKey;
use os::scheduling::Schedule;

use super::began;
use crate::guardian::ThreadBefore;

/// How a thread is preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boost {
    /// The least nice value: most of the processor.
    Nice,
    /// Real time: all of the processor, but for what the kernel keeps for others.
    RealTime,
}

impl Boost {
    /// Chooses how these tasks are preferred: by real time if that is wanted, and if no control
    /// group has them stand still for most of the time then.
    pub fn of_tasks<'a>(real_time: bool, mut tasks: impl Iterator<Item = &'a ProcessKey>) -> Boost {
        let is_possible = real_time && tasks.all(|task| has_real_time(task.pid));
        if is_possible { Boost::RealTime } else { Boost::Nice }
    }

    fn schedule(self) -> Schedule {
        match self {
            Boost::Nice => Schedule::LEAST_NICE,
            Boost::RealTime => Schedule::ROUND_ROBIN,
        }
    }

    /// Tells whether a schedule is one that is given here.
    pub fn is_one(schedule: Schedule) -> bool {
        [Schedule::LEAST_NICE, Schedule::ROUND_ROBIN].contains(&schedule)
    }
}

/// The least part of the time that a group must have for real time, thousandths: beyond it, tasks
/// stand still.
const REAL_TIME_LEAST: u64 = 500;

/// Tells whether a task by real time could run for most of the time.
fn has_real_time(pid: i32) -> bool {
    os::cgroup::real_time_share(pid).is_none_or(|share| share >= REAL_TIME_LEAST)
}

/// A thread, and how it was scheduled before.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// The thread itself.
    pub key: ProcessKey,
    before: Schedule,
}

impl Thread {
    /// Looks at a thread. `None`: it has gone, or runs by real time already.
    pub fn look(tid: i32) -> Option<Thread> {
        let key = ProcessKey { pid: tid, began: began(tid)? };
        let before = Schedule::of(tid).ok()?;
        (!before.is_real_time()).then_some(Thread { key, before })
    }

    /// Prefers the thread.
    ///
    /// # Errors
    /// The thread has gone, or the kernel refuses.
    pub fn raise(&self, boost: Boost) -> os::Result<()> {
        boost.schedule().apply(self.key.pid)
    }

    /// Gives the thread its schedule back, unless that is another one by now.
    pub fn lower(&self) {
        if let Err(e) = self.before().restore() {
            tracing::debug!("cosched: {e}");
        }
    }

    /// Tells how to end that.
    pub fn before(&self) -> ThreadBefore {
        ThreadBefore::new(self.key, self.before)
    }
}
