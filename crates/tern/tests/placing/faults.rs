//! Daemons, nodes and links that fail while programs are away.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use crate::{COUNTS, Running, WAITS, comm, lab, wait_for};

/// Numbers from a seed (xorshift): the moments of the kills, which a failure names.
struct Moments(u64);

impl Moments {
    fn next(&mut self) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        Duration::from_millis(self.0 % 150)
    }
}

/// The next number must be the successor: nothing lost, nothing twice.
fn counts_on(running: &mut Running, last: &mut u64) {
    let line = running.line();
    *last += 1;
    assert_eq!(line, last.to_string(), "the guest's count");
}

#[test]
fn guests_outlive_their_daemons() {
    let lab = lab(3);
    let mut guests = [Running::start(&lab, "n2", &COUNTS), Running::start(&lab, "n3", &COUNTS)];
    let mut last = [0, 0];
    for (guest, last) in guests.iter_mut().zip(&mut last) {
        counts_on(guest, last);
    }
    let seed = u64::from(std::process::id()) | 1 << 40;
    println!("seed {seed}");
    let mut moments = Moments(seed);
    for kill in 0..50 {
        std::thread::sleep(moments.next());
        lab.restart_daemon(["n1", "n2", "n3"][kill % 3]).unwrap();
        for (guest, last) in guests.iter_mut().zip(&mut last) {
            counts_on(guest, last);
        }
    }
    // The new daemons know them, and can place.
    let rows = lab.exec("n1", ["tern", "ps", "--json"]).unwrap().text();
    assert!(guests.iter().all(|guest| rows.contains(&guest.pid.to_string())), "{rows}");
    wait_for("placing to work again", || crate::placed(&lab, "n2", &["true"]).status.success());
    for mut guest in guests {
        drop(guest.child.stdin.take());
        let (status, _, errors) = guest.end();
        assert!(status.success(), "{status} {errors}");
    }
}

#[test]
fn a_hosting_node_that_dies_takes_its_guests() {
    let lab = lab(3);
    let mut here = Running::start(&lab, "n2", &WAITS);
    let mut elsewhere = Running::start(&lab, "n3", &WAITS);
    assert_eq!((here.line(), elsewhere.line()), ("ready".into(), "ready".into()));
    lab.kill_node("n2").unwrap();
    let (status, _, errors) = here.end();
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{status} {errors}");
    assert!(errors.contains("n2"), "no word of it: {errors:?}");
    drop(elsewhere.child.stdin.take());
    assert!(elsewhere.end().0.success());
}

#[test]
fn a_home_that_dies_takes_its_bodies() {
    let lab = lab(2);
    let mut guest = Running::start(&lab, "n2", &WAITS);
    assert_eq!(guest.line(), "ready");
    let bodies = || lab.processes("n2").unwrap().into_iter().filter(|pid| comm(*pid).starts_with("python")).count();
    assert_eq!(bodies(), 1);
    lab.kill_node("n1").unwrap();
    wait_for("the body to end", || bodies() == 0);
    guest.child.wait().unwrap();
}

/// For longer than the daemon waits for answers to questions of its own. Failed once: where home
/// had little of a core, and many began at once.
#[test]
fn a_steward_that_is_slow_is_waited_for() {
    let lab = lab(2);
    let mut first = Running::start(&lab, "n2", &WAITS);
    assert_eq!(first.line(), "ready");
    let words = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_steward = |pid: &i32| words(pid).split(|b| *b == 0).any(|word| word == b"__steward");
    let steward = lab.processes("n1").unwrap().into_iter().find(is_steward).unwrap();
    // SAFETY: a process of the lab.
    let signal = |signal| assert_eq!(unsafe { libc::kill(steward, signal) }, 0);
    signal(libc::SIGSTOP);
    let second = lab.spawn("n1", ["tern", "run", "--on", "n2", "--", "true"]).unwrap();
    std::thread::sleep(Duration::from_secs(6));
    signal(libc::SIGCONT);
    let output = second.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    drop(first.child.stdin.take());
    assert!(first.end().0.success());
}

#[test]
fn a_link_that_is_cut_and_healed_in_time_loses_nothing() {
    let lab = lab(2);
    let mut guest = Running::start(&lab, "n2", &COUNTS);
    let mut last = 0;
    counts_on(&mut guest, &mut last);
    lab.cut("n1", "n2").unwrap();
    std::thread::sleep(Duration::from_secs(2));
    lab.heal("n1", "n2").unwrap();
    for _ in 0..30 {
        counts_on(&mut guest, &mut last);
    }
    drop(guest.child.stdin.take());
    let (status, rest, errors) = guest.end();
    assert!(status.success(), "{status} {errors}");
    for line in rest.lines() {
        last += 1;
        assert_eq!(line, last.to_string());
    }
}
