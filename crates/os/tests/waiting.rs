//! Which call a thread waits in.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

#[test]
fn a_thread_that_is_about_to_wait_is_waited_for() {
    let (mut from, mut to) = std::io::pipe().unwrap();
    let tid = AtomicI32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            tid.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
            from.read_exact(&mut [0]).unwrap();
        });
        let tid = loop {
            match tid.load(Ordering::Relaxed) {
                0 => std::thread::yield_now(),
                tid => break tid,
            }
        };
        // Whether it sleeps already or not.
        let line = os::waiting::line(tid).unwrap();
        assert!(line.starts_with(&format!("{} ", libc::SYS_read)), "{line}");
        to.write_all(b"x").unwrap();
    });
}

#[test]
fn one_that_runs_on_is_in_no_call() {
    let (tid, ends) = (AtomicI32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            tid.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
            while !ends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        while tid.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(os::waiting::line(tid.load(Ordering::Relaxed)), None);
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(os::waiting::line(-1), None);
}
