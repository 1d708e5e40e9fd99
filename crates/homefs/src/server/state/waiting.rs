//! Requests that wait for others, each on a thread of its own, and their interruption.

use super::mutex::lock;
use crate::sys;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The most interruptions that are kept for requests that do not wait yet.
const EARLY_KEPT: usize = 256;

type Key = (u16, u64);

/// One waiting request.
#[derive(Default)]
pub(crate) struct Wait {
    tid: AtomicI32,
    pub(crate) interrupted: AtomicBool,
    done: AtomicBool,
}

impl Wait {
    /// Notes that the calling thread is the one that waits.
    pub(crate) fn enter(&self) {
        self.tid.store(sys::gettid(), Ordering::Release);
    }

    fn interrupt(self: &Arc<Wait>) {
        self.interrupted.store(true, Ordering::Release);
        let wait = self.clone();
        // A signal just before the thread sleeps is lost, so it is repeated until the thread is
        // awake.
        let pursue = move || {
            let mut pause = Duration::from_micros(100);
            while !wait.done.load(Ordering::Acquire) {
                let tid = wait.tid.load(Ordering::Acquire);
                if tid != 0 {
                    sys::signal_thread(tid, wake_signal());
                }
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(20));
            }
        };
        if let Err(error) = std::thread::Builder::new().name("interrupt".into()).spawn(pursue) {
            tracing::error!(%error, "a waiting request cannot be interrupted");
        }
    }
}

/// All waiting requests.
#[derive(Default)]
pub(crate) struct Waiting {
    requests: Mutex<HashMap<Key, Arc<Wait>>>,
    early: Mutex<VecDeque<Key>>,
}

impl Waiting {
    /// Notes that a request is about to wait.
    pub(crate) fn begin(&self, mount: u16, unique: u64) -> Arc<Wait> {
        let wait = Arc::new(Wait::default());
        lock(&self.requests).insert((mount, unique), wait.clone());
        if lock(&self.early).contains(&(mount, unique)) {
            wait.interrupt();
        }
        wait
    }

    /// Notes that a request does not wait any more.
    pub(crate) fn end(&self, mount: u16, unique: u64) {
        if let Some(wait) = lock(&self.requests).remove(&(mount, unique)) {
            wait.done.store(true, Ordering::Release);
        }
    }

    /// Interrupts a request, because the room's kernel wants a reply now.
    pub(crate) fn interrupt(&self, mount: u16, unique: u64) {
        let mut early = lock(&self.early);
        early.push_back((mount, unique));
        if early.len() > EARLY_KEPT {
            early.pop_front();
        }
        drop(early);
        lock(&self.requests).get(&(mount, unique)).into_iter().for_each(Wait::interrupt);
    }

    pub(crate) fn interrupt_all(&self) {
        lock(&self.requests).values().for_each(Wait::interrupt);
    }
}

fn wake_signal() -> i32 {
    libc::SIGRTMIN() + 5
}

extern "C" fn nothing(_: i32) {}

/// Installs the wake-up signal, which interrupts system calls and has no other effect.
pub(crate) fn install_signal() {
    // SAFETY: the handler is a function that does nothing; no SA_RESTART, so that calls end with
    // EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(wake_signal(), &raw const action, std::ptr::null_mut());
    }
}
