//! SIGSTOP, which no mask holds, while calls are made in a process: the calls are made, and it
//! stops when that is left. (That failed, and the stop was lost, or the process that was being
//! moved was killed.)
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use os::inject::{Inside, Memory, gate};
use os::process;
use os::ptrace::{self, Event, HostTid, Stopped};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

fn state(child: &Child) -> char {
    process::status(child.id() as i32).unwrap().state
}

fn eventually(child: &Child, wanted: char) {
    let begun = Instant::now();
    while state(child) != wanted {
        assert!(begun.elapsed() < Duration::from_secs(20), "{} and not {wanted}", state(child));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn stopped(tid: HostTid) -> Stopped {
    ptrace::seize(tid).unwrap();
    ptrace::interrupt(tid).unwrap();
    loop {
        match ptrace::wait_for(tid).unwrap() {
            Event::Halt(stopped, _) => return stopped,
            Event::Exec(stopped, _) | Event::Other(stopped) | Event::SystemCall(stopped) => drop(stopped.resume(0)),
            other => panic!("{other:?}"),
        }
    }
}

/// One that sleeps; while a call is made in it, it gets these signals.
fn called_while(signals: &[i32]) -> Child {
    let child = Command::new("sleep").arg("100").spawn().unwrap();
    let pid = child.id() as i32;
    eventually(&child, 'S');
    let stopped = stopped(HostTid(pid));
    let (registers, mask) = (stopped.registers().unwrap(), stopped.mask().unwrap());
    let memory = Memory::of(pid).unwrap();
    let gate = gate(&memory, &os::areas::read(pid).unwrap()).unwrap();
    let mut inside = Inside::enter(stopped, memory, gate).unwrap();
    for signal in signals {
        // SAFETY: our child, which has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, *signal) }, 0);
        assert_eq!(inside.call(libc::SYS_getpid, [0; 6]).unwrap(), i64::from(pid));
    }
    inside.leave(&registers, mask).unwrap().detach(0).unwrap();
    child
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn it_stops_when_that_is_left() {
    let child = called_while(&[libc::SIGSTOP]);
    eventually(&child, 'T');
    end(child);
}

#[test]
fn a_continuation_behind_the_stop_takes_it_back() {
    let child = called_while(&[libc::SIGSTOP, libc::SIGCONT]);
    eventually(&child, 'S');
    assert_eq!(process::status(child.id() as i32).unwrap().pending, 0);
    end(child);
}
