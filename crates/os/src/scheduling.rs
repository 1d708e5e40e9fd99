//! How the kernel schedules a thread, beside its nice value (sched(7), ioprio_set(2)).

use crate::Result;
use crate::error::check;

const RESETS_ON_FORK: u32 = libc::SCHED_RESET_ON_FORK as u32;
const SCHED_DEADLINE: u32 = 6;
const IOPRIO_WHO_PROCESS: i32 = 1;
const IOPRIO_CLASS_SHIFT: u32 = 13;
const IOPRIO_CLASS_RT: u16 = 1;

/// Gives the policy of a thread, with the flag that its children do not get it.
pub fn policy(tid: i32) -> Result<u32> {
    // SAFETY: numbers only.
    let policy = unsafe { libc::sched_getscheduler(tid) };
    Ok(check(policy, || format!("asking how {tid} is scheduled"))? as u32)
}

/// Who has it runs before all that have not.
pub fn is_real_time(policy: u32) -> bool {
    let policy = policy & !RESETS_ON_FORK;
    [libc::SCHED_FIFO as u32, libc::SCHED_RR as u32, SCHED_DEADLINE].contains(&policy)
}

/// The largest nice value: gives way to all.
pub const NICEST: i32 = 19;

/// Sets the nice value of a thread.
pub fn set_nice(tid: i32, to: i32) -> Result<()> {
    // SAFETY: numbers only.
    let set = unsafe { libc::setpriority(libc::PRIO_PROCESS, tid as libc::id_t, to) };
    check(set, || format!("setting the nice value of {tid}")).map(drop)
}

/// Gives a thread a policy that is none of real time.
pub fn set_policy(tid: i32, to: u32) -> Result<()> {
    if policy(tid)? == to {
        return Ok(());
    }
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: one live parameter.
    let set = unsafe { libc::sched_setscheduler(tid, to as i32, &parameters) };
    check(set, || format!("having {tid} scheduled by policy {to:#x}")).map(drop)
}

/// Has the calling thread run before all threads without such a policy, at the lowest priority of
/// SCHED_FIFO. Its children do not inherit that.
pub fn run_first() -> Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: one live parameter; 0 is the calling thread.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters) };
    check(set, || "asking for SCHED_FIFO".into()).map(drop)
}

/// How a thread competes for processors (sched_setattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The policy, without flags.
    pub policy: u32,
    /// Children begin with the ordinary policy and, instead of a negative nice value, with 0.
    pub resets_on_fork: bool,
    /// The nice value, for policies that know one.
    pub nice: i32,
    /// The priority, for policies of real time.
    pub priority: u32,
}

/// As the kernel has it (`struct sched_attr`, its first version).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

impl Schedule {
    /// Before all threads without a policy of real time that are in the same control group, and
    /// with their policy.
    pub const LEAST_NICE: Schedule =
        Schedule { policy: libc::SCHED_OTHER as u32, resets_on_fork: true, nice: -20, priority: 0 };
    /// Before all threads without a policy of real time, in turns with others of this kind.
    pub const ROUND_ROBIN: Schedule =
        Schedule { policy: libc::SCHED_RR as u32, resets_on_fork: true, nice: 0, priority: 1 };
    /// Before all threads of [`ROUND_ROBIN`](Self::ROUND_ROBIN).
    pub const FIRST: Schedule =
        Schedule { policy: libc::SCHED_FIFO as u32, resets_on_fork: true, nice: 0, priority: 2 };

    /// Reads that of a thread; 0 is the calling one.
    ///
    /// # Errors
    /// There is no such thread.
    pub fn of(tid: i32) -> Result<Schedule> {
        let mut found = Attributes::default();
        let size = size_of::<Attributes>() as u32;
        // SAFETY: the kernel writes at most `size` bytes, all of which `found` has.
        let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut found, size, 0) };
        check(done, || format!("asking how {tid} is scheduled"))?;
        Ok(Schedule {
            policy: found.policy,
            resets_on_fork: found.flags & 1 != 0,
            nice: found.nice,
            priority: found.priority,
        })
    }

    /// Gives a thread this one; 0 is the calling one.
    ///
    /// # Errors
    /// There is no such thread, or the caller may not: more than the thread had asks for
    /// CAP_SYS_NICE, and real time in a version 1 group for a part of its runtime.
    pub fn apply(&self, tid: i32) -> Result<()> {
        let wanted = Attributes {
            size: size_of::<Attributes>() as u32,
            policy: self.policy,
            flags: self.resets_on_fork.into(),
            nice: self.nice,
            priority: self.priority,
            ..Attributes::default()
        };
        // SAFETY: the kernel reads `size` bytes.
        let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const wanted, 0) };
        check(done, || format!("having {tid} scheduled by policy {} with nice value {}", self.policy, self.nice))
            .map(drop)
    }

    /// Tells whether threads with it run before all threads of ordinary policies.
    pub fn is_real_time(&self) -> bool {
        is_real_time(self.policy)
    }
}

/// Gives the priority of a thread's reading and writing: class and level.
pub fn io_priority(tid: i32) -> Result<u16> {
    // SAFETY: numbers only.
    let found = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, tid) };
    Ok(check(found, || format!("asking for the I/O priority of {tid}"))? as u16)
}

/// Sets it, unless it is one of real time.
pub fn set_io_priority(tid: i32, to: u16) -> Result<()> {
    if to >> IOPRIO_CLASS_SHIFT == IOPRIO_CLASS_RT || io_priority(tid)? == to {
        return Ok(());
    }
    // SAFETY: numbers only.
    let set = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, tid, i32::from(to)) };
    check(set, || format!("setting the I/O priority of {tid}")).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_given_and_taken_back() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let tid = child.id() as i32;
        let before = Schedule::of(tid).unwrap();
        for schedule in [Schedule::LEAST_NICE, Schedule::ROUND_ROBIN, Schedule::FIRST] {
            // Only the superuser may, and in some containers nobody.
            if schedule.apply(tid).is_ok() {
                assert_eq!(Schedule::of(tid).unwrap(), schedule);
                before.apply(tid).unwrap();
                assert_eq!(Schedule::of(tid).unwrap(), before);
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Schedule::of(tid).is_err());
    }

    #[test]
    fn a_thread_is_scheduled_as_it_was_told() {
        let (tid, before) = std::thread::scope(|scope| {
            let told = scope.spawn(|| {
                // SAFETY: takes nothing.
                let tid = unsafe { libc::gettid() };
                let before = policy(tid).unwrap();
                set_policy(tid, libc::SCHED_BATCH as u32).unwrap();
                set_io_priority(tid, 2 << IOPRIO_CLASS_SHIFT | 6).unwrap();
                assert_eq!(policy(tid).unwrap(), libc::SCHED_BATCH as u32);
                assert_eq!(io_priority(tid).unwrap(), 2 << IOPRIO_CLASS_SHIFT | 6);
                set_io_priority(tid, IOPRIO_CLASS_RT << IOPRIO_CLASS_SHIFT).unwrap();
                assert_eq!(io_priority(tid).unwrap(), 2 << IOPRIO_CLASS_SHIFT | 6, "none of real time");
                (tid, before)
            });
            told.join().unwrap()
        });
        assert!(policy(tid).is_err() && !is_real_time(before));
        assert!(is_real_time(libc::SCHED_RR as u32 | RESETS_ON_FORK) && !is_real_time(libc::SCHED_IDLE as u32));
    }
}
