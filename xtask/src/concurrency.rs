//! Which test programs run beside each other.
//!
//! Most of a test's time is waiting: for a lab, for a time limit, for a link that is slow on
//! purpose. So two programs run at a time. Those that judge how busy the machine is, or how fast an
//! answer comes, run alone, after the others.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The number of programs that run at a time.
const BESIDE: usize = 2;

/// Suites whose tests look at the load of the machine, or at the time of an answer.
const ALONE: [&str; 5] = ["tern/policy", "tern/owners", "tern/partition", "tern/hostile", "sim/seeds"];

/// Suites that take long, the longest first: these begin first, so that all end at about the same
/// time.
const LONG: [&str; 6] =
    ["tern/guests", "tern/moving", "tern/programs", "tern/placing", "tern/faults", "homefs/home_files"];

/// Does `run` for each suite, given by its number. `run` is called by several threads at a time.
pub fn each(suites: &[String], run: impl Fn(usize) + Sync) {
    let (alone, mut others): (Vec<usize>, Vec<usize>) =
        (0..suites.len()).partition(|n| ALONE.contains(&suites[*n].as_str()));
    let rank = |n: &usize| LONG.iter().position(|long| *long == suites[*n]).unwrap_or(LONG.len());
    others.sort_by_key(rank);
    let queue = Mutex::new(VecDeque::from(others));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(|| {
                while let Some(n) = next() {
                    run(n);
                }
            });
        }
    });
    alone.into_iter().for_each(run);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn each_suite_runs_once_and_some_run_alone() {
        let suites: Vec<String> = ["os", "tern/policy", "tern/guests", "room"].map(String::from).into();
        let (running, order) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        each(&suites, |n| {
            let beside = running.fetch_add(1, Ordering::SeqCst);
            assert!(n != 1 || beside == 0);
            order.lock().unwrap().push(n);
            running.fetch_sub(1, Ordering::SeqCst);
        });
        let mut order = order.into_inner().unwrap();
        assert_eq!(order.last(), Some(&1));
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2, 3]);
    }
}
