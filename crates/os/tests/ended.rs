//! The end of a tracee that somebody was waiting for is told to whoever asks for all events, too.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use os::ptrace::{self, Death, Event, HostTid};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn an_end_that_was_waited_for_is_not_lost() {
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    let tid = HostTid(i32::try_from(child.id()).unwrap());
    ptrace::seize(tid).unwrap();
    // As when memory runs out while calls are made in it.
    child.kill().unwrap();
    loop {
        match ptrace::wait_for(tid).unwrap() {
            Event::Killed(Death { signal: 9, .. }) => break,
            Event::Exec(stopped, _) | Event::Other(stopped) | Event::Halt(stopped, _) => drop(stopped.resume(0)),
            other => panic!("{other:?}"),
        }
    }
    let begun = Instant::now();
    loop {
        match ptrace::poll().unwrap() {
            Some((ended, Event::Killed(Death { signal: 9, .. }), _)) if ended == tid => break,
            other => assert!(begun.elapsed() < Duration::from_secs(5), "{other:?}"),
        }
    }
    assert!(ptrace::poll().unwrap().is_none());
    // There is nothing left to wait for.
    assert!(child.wait().is_err());
}
