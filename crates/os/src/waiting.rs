//! Which system calls threads wait in (proc_pid_syscall(5)).

use crate::process::slurp;
use std::time::{Duration, Instant};

/// From its entry into the kernel until it sleeps there, or is done, a thread does not work for so
/// long. Who has is not about to wait.
const WORKS_AT_MOST: Duration = Duration::from_millis(1);
/// How long one may take to get a processor for that, if it must be known, and if it is only better
/// to know.
const SEEN_WITHIN: Duration = Duration::from_secs(2);
const LIKELY_WITHIN: Duration = Duration::from_millis(20);
/// How long one may take to fall asleep in a call in which it has asked somebody already.
const ASLEEP_WITHIN: Duration = Duration::from_secs(60);
const YIELDS: u32 = 16;
/// Between two looks: each pause is twice the one before. Where processors are few, looking takes
/// what the thread waits for.
const PAUSE_FIRST: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// A call that a thread waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number; -1: the thread waits outside of any.
    pub number: i64,
    /// The arguments of the call.
    pub args: [u64; 6],
}

impl Call {
    /// From the line of /proc/TID/syscall. `None`: the thread runs.
    pub fn read(line: &str) -> Option<Call> {
        let mut words = line.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut args = [0; 6];
        for (arg, word) in args.iter_mut().zip(words) {
            *arg = u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Call { number, args })
    }
}

/// What threads do.
#[derive(Debug, Default)]
pub struct Seen {
    /// Lines of /proc/TID/syscall of those that wait.
    pub waiting: Vec<(i32, String)>,
    /// Those of which it could not be seen, for they get no processor.
    pub unseen: Vec<i32>,
}

/// Looks at these threads until each waits, or has worked so much since that it cannot be in the
/// call any more in which it was when this was called.
pub fn look(threads: &[i32]) -> Seen {
    look_for(threads, SEEN_WITHIN)
}

fn look_for(threads: &[i32], within: Duration) -> Seen {
    let worked = |tid: i32| worked(tid).unwrap_or_default();
    let mut left: Vec<(i32, Duration)> = threads.iter().map(|tid| (*tid, worked(*tid))).collect();
    let (mut seen, begun) = (Seen::default(), Instant::now());
    for look in 0.. {
        left.retain(|(tid, before)| {
            // What it has worked is asked first: when it ran on by then, it is not asleep in what
            // it was in before.
            let goes_on = worked(*tid).saturating_sub(*before) >= WORKS_AT_MOST;
            match slurp(*tid, "syscall").map(String::from_utf8) {
                Ok(Ok(line)) if line.starts_with("running") => !goes_on,
                Ok(Ok(line)) => {
                    seen.waiting.push((*tid, line));
                    false
                }
                _ => false,
            }
        });
        if left.is_empty() || begun.elapsed() > within {
            break;
        }
        pause(look);
    }
    seen.unseen = left.into_iter().map(|(tid, _)| tid).collect();
    seen
}

/// Gives the line of /proc/TID/syscall of a thread that waits in a call, or is about to: who has
/// sent a request to a file system may not yet sleep when that is read, above all where processors
/// are few. `None`: it runs on, is gone, or gets no processor for a while.
pub fn line(tid: i32) -> Option<String> {
    look_for(&[tid], LIKELY_WITHIN).waiting.pop().map(|(_, line)| line)
}

/// The same, understood.
pub fn call(tid: i32) -> Option<Call> {
    Call::read(&line(tid)?)
}

/// The call of a thread that sleeps in it until it is answered, or is about to sleep, however long
/// it does not get a processor for that. `None`: it is gone.
pub fn call_until_answered(tid: i32) -> Option<Call> {
    let begun = Instant::now();
    for look in 0.. {
        let line = String::from_utf8(slurp(tid, "syscall").ok()?).ok()?;
        if !line.starts_with("running") {
            return Call::read(&line);
        }
        if begun.elapsed() > ASLEEP_WITHIN {
            break;
        }
        pause(look);
    }
    None
}

/// A thread that was woken has gone on in its call, or is out of it. False: it still has not got a
/// processor.
pub fn has_gone_on(tid: i32) -> bool {
    look_for(&[tid], LIKELY_WITHIN).unseen.is_empty()
}

/// Before the next look.
fn pause(look: u32) {
    match look.checked_sub(YIELDS) {
        None => std::thread::yield_now(),
        Some(n) => std::thread::sleep(PAUSE_MAX.min(PAUSE_FIRST * (1 << n.min(10)))),
    }
}

/// For how long a thread has worked; up to one tick of the clock less if it does now. Of the
/// scheduler's numbers the first (Documentation/scheduler/sched-stats.rst).
fn worked(tid: i32) -> Option<Duration> {
    let text = String::from_utf8(slurp(tid, "schedstat").ok()?).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let call = Call::read("0 0x3 0x7ffc10 0x1000 0x0 0x0 0x0 0x7ffc00 0x7f0000\n");
        assert_eq!(call, Some(Call { number: 0, args: [3, 0x7ffc10, 0x1000, 0, 0, 0] }));
        assert_eq!(Call::read("-1 0x7ffc00 0x7f0000\n").map(|call| call.number), Some(-1));
        assert_eq!((Call::read("running\n"), Call::read("")), (None, None));
    }
}
