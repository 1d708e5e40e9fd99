//! Watches that nothing of tern's holds up the epoll instances of this machine.
//!
//! The kernel has one mutex for all nested epoll instances (fs/eventpoll.c: `epnested_mutex`). A
//! process that polls a file of tern's under this mutex holds up every program that nests one.
//!
//! A thread that waits for the mutex is in state D. Only this time counts: a machine that stands
//! still, or a processor that is taken, is none of tern's faults.

use std::process::abort;
use std::sync::Once;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create};
use rustix::thread::gettid;

/// How long one nested epoll_ctl(2) may wait for the mutex before the tests end.
const WAITS_AT_MOST: Duration = Duration::from_secs(30);

/// How often the watch looks at the thread that nests.
const STEP: Duration = Duration::from_millis(100);

/// Nests epoll instances all the time, as any program of this machine may, and watches this.
pub fn watch() {
    static BEGUN: Once = Once::new();
    BEGUN.call_once(|| {
        let (beat, beats) = channel();
        std::thread::spawn(move || {
            while beat.send(gettid().as_raw_nonzero().get()).is_ok() {
                nest();
                std::thread::sleep(STEP);
            }
        });
        std::thread::spawn(move || follow(&beats));
    });
}

fn nest() {
    let (outer, inner) = (create(CreateFlags::CLOEXEC).unwrap(), create(CreateFlags::CLOEXEC).unwrap());
    let (reader, _writer) = std::io::pipe().unwrap();
    add(&outer, &inner, EventData::new_u64(0), EventFlags::IN).unwrap();
    add(&inner, &reader, EventData::new_u64(0), EventFlags::IN).unwrap();
}

/// Ends the tests when the thread that sends these beats waits for too long. Each beat is its TID.
fn follow(beats: &Receiver<i32>) {
    let Ok(nester) = beats.recv() else { return };
    let mut waited = Duration::ZERO;
    while waited < WAITS_AT_MOST {
        let step = Instant::now();
        match beats.recv_timeout(STEP) {
            Ok(_) => waited = Duration::ZERO,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) if step.elapsed() < 2 * STEP && waits_for_a_mutex(nester) => waited += STEP,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    eprintln!("a nested epoll_ctl(2) waited for {WAITS_AT_MOST:?}: something of tern holds up this machine's epolls");
    tell_users_of_epoll();
    abort();
}

fn waits_for_a_mutex(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('D'))
}

/// Prints the kernel stacks of all threads that are in epoll_ctl(2): one of them has the mutex.
fn tell_users_of_epoll() {
    let entries = |dir: &str| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    for task in entries("/proc").flat_map(|process| entries(&process.join("task").to_string_lossy())) {
        let stack = std::fs::read_to_string(task.join("stack")).unwrap_or_default();
        if stack.contains("epoll_ctl") {
            let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
            eprintln!("{} {name}{stack}", task.display());
        }
    }
}
