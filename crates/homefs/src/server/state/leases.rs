//! The leases that a server holds, and the thread that notices when a process at home breaks one.
//!
//! # The problem
//!
//! A writer at home waits in open(2) until the lease of the file is given up. That takes no time if
//! the room answers; if it does not, the kernel removes the lease after 45 s
//! (/proc/sys/fs/lease-break-time). A lease whose break nobody notices stays for good. The server's
//! work after a break may take long: it takes the file's lock, which another thread may hold while
//! it waits for a full link.
//!
//! # The way taken
//!
//! The *keeper* thread never does anything that can wait. Signals tell it of breaks. It has another
//! thread tell the room, and gives each broken lease up after [`GIVE_UP_AFTER`], whatever the room
//! answers. The file is then stale for the room: nothing of it may be cached until the room has
//! confirmed to have forgotten it (`caching/content.rs`). Signals can be lost (a full queue, a
//! reused descriptor), so the keeper also checks all leases once in a [`PATROL`].
//!
//! Giving a lease up needs the same rights as taking it: CAP_LEASE, or the file's owner
//! (`vfs_setlease` in fs/locks.c). Threads that act for a guest have neither, so
//! [`Leases::release`] uses the server's own rights.

use super::creds::Authority;
use super::lease::HeldLease;
use super::mutex::lock;
use super::nodes::Node;
use crate::sys;
use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::time::{Duration, Instant};

/// The longest time for which a writer at home waits for a room.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(1);
/// The time between two checks of all leases for breaks of which no signal told.
const PATROL: Duration = Duration::from_millis(500);

/// A held lease, with the node of its file.
struct Entry {
    node: Weak<Node>,
    lease: Arc<HeldLease>,
}

/// All leases of a server.
pub(crate) struct Leases {
    authority: Authority,
    keeper_tid: AtomicI32,
    closed: AtomicBool,
    /// The leases by the file's descriptor. Never locked while anything is sent.
    held: Mutex<HashMap<RawFd, Entry>>,
    /// The number of leases that were given up without the room's answer.
    overdue: AtomicU64,
    /// The most leases. A file under a lease cannot go into a vault, because the kernel's signals
    /// name its descriptor.
    most: usize,
}

fn break_signal() -> i32 {
    libc::SIGRTMIN() + 4
}

impl Leases {
    pub(crate) fn new(authority: Authority, most: usize) -> Leases {
        Leases {
            authority,
            keeper_tid: AtomicI32::new(0),
            closed: AtomicBool::new(false),
            held: Mutex::default(),
            overdue: AtomicU64::new(0),
            most,
        }
    }

    /// Starts the keeper. It sends the node of each broken lease through `broken`, whose receiver
    /// tells the room. Leases may be taken after this returns.
    pub(crate) fn start(self: &Arc<Self>, broken: mpsc::Sender<Arc<Node>>) -> std::io::Result<()> {
        let (ready, is_ready) = mpsc::channel();
        let leases = self.clone();
        std::thread::Builder::new().name("leases".into()).spawn(move || {
            let signals = block_signals();
            if ready.send(sys::gettid()).is_ok() {
                Keeper { leases, tell: broken, broken: VecDeque::new() }.run(&signals);
            }
        })?;
        let tid = is_ready.recv().map_err(std::io::Error::other)?;
        self.keeper_tid.store(tid, Ordering::Relaxed);
        Ok(())
    }

    /// Takes a lease on this open file. `None` if a process has the file open for writing, if there
    /// are enough leases, or if the server closes.
    pub(crate) fn take(&self, node: &Arc<Node>, file: &Arc<OwnedFd>) -> Option<Arc<HeldLease>> {
        if lock(&self.held).len() >= self.most {
            return None;
        }
        let (broken, given_up) = (AtomicBool::new(false), AtomicBool::new(false));
        let lease = Arc::new(HeldLease { file: file.clone(), broken, given_up });
        // The lease is registered before it is taken, because it may be broken at once.
        lock(&self.held).insert(file.as_raw_fd(), Entry { node: Arc::downgrade(node), lease: lease.clone() });
        let taken = self.probe(file, break_signal());
        if !taken || self.closed.load(Ordering::SeqCst) {
            self.release(&lease);
            return None;
        }
        Some(lease)
    }

    /// Tells whether the kernel grants a lease on this open file, with breaks told by this signal
    /// (0: SIGIO).
    pub(crate) fn probe(&self, file: &OwnedFd, signal: i32) -> bool {
        sys::take_lease(file.as_fd(), self.keeper_tid.load(Ordering::Relaxed), signal).is_ok()
    }

    /// Gives a lease up, once.
    pub(crate) fn release(&self, lease: &HeldLease) {
        let mut held = lock(&self.held);
        let fd = lease.file.as_raw_fd();
        if held.get(&fd).is_some_and(|entry| std::ptr::eq(&*entry.lease, lease)) {
            held.remove(&fd);
        }
        // Under the lock, so that the next lease on the same file is not given up instead.
        if !lease.given_up.swap(true, Ordering::AcqRel) {
            let dropped = self.authority.with_own_rights(|| sys::drop_lease(lease.file.as_fd()));
            if let Err(errno) = dropped.flatten() {
                tracing::warn!(%errno, "cannot give a lease up");
            }
        }
    }

    /// Stops taking leases, and gives all held ones up.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let held: Vec<_> = lock(&self.held).values().map(|entry| entry.lease.clone()).collect();
        held.iter().for_each(|lease| self.release(lease));
        sys::signal_thread(self.keeper_tid.load(Ordering::Relaxed), break_signal());
    }
}

/// Blocks the keeper's signals. They are sent to it alone (F_OWNER_TID), and it only waits for
/// them. SIGIO comes if the queue was full.
fn block_signals() -> libc::sigset_t {
    // SAFETY: an all-zero sigset_t is a valid one to initialise; the calls only write to it and to
    // this thread's mask.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, break_signal());
        libc::sigaddset(&raw mut set, libc::SIGIO);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        set
    }
}

/// The reason for which the keeper woke up.
enum Woken {
    /// The lease on this descriptor may be broken.
    By(RawFd),
    /// Any lease may be broken: the signal queue was full, or the time for a check has come.
    ByAny,
}

/// Waits for a signal, for at most `at_most`.
fn wait(signals: &libc::sigset_t, at_most: Duration) -> Woken {
    let timeout = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos()),
    };
    // SAFETY: all structs are valid for the call; all-zero siginfo is a valid value.
    let (signal, info) = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        (libc::sigtimedwait(signals, &raw mut info, &raw const timeout), info)
    };
    if signal != break_signal() {
        return Woken::ByAny;
    }
    // `_sigpoll`: si_band (long) and si_fd (int) lie behind the three ints and their padding.
    // SAFETY: siginfo_t is 128 bytes; offset 24 is si_fd for signals sent by F_SETSIG
    // (`asm-generic/siginfo.h`).
    Woken::By(unsafe { (&raw const info).cast::<u8>().add(24).cast::<i32>().read_unaligned() })
}

/// The state of the keeper's thread.
struct Keeper {
    leases: Arc<Leases>,
    tell: mpsc::Sender<Arc<Node>>,
    /// Broken leases in the order of the times at which they are given up.
    broken: VecDeque<(Instant, Arc<HeldLease>)>,
}

impl Keeper {
    fn run(mut self, signals: &libc::sigset_t) {
        loop {
            let next = self.broken.front().map(|(end, _)| end.saturating_duration_since(Instant::now()));
            let woken = wait(signals, next.map_or(PATROL, |next| next.min(PATROL)));
            if self.leases.closed.load(Ordering::SeqCst) {
                return;
            }
            self.look(&woken);
            self.give_up_overdue();
        }
    }

    /// Checks for leases for which a process waits, and has the room told.
    fn look(&mut self, woken: &Woken) {
        let all: Vec<(Weak<Node>, Arc<HeldLease>)> = {
            let held = lock(&self.leases.held);
            let of = |entry: &Entry| (entry.node.clone(), entry.lease.clone());
            match woken {
                Woken::By(fd) => held.get(fd).map(of).into_iter().collect(),
                Woken::ByAny => held.values().map(of).collect(),
            }
        };
        for (node, lease) in all {
            if lease.is_whole() || lease.broken.swap(true, Ordering::AcqRel) {
                continue;
            }
            match node.upgrade() {
                Some(node) => {
                    let _ = self.tell.send(node);
                    self.broken.push_back((Instant::now() + GIVE_UP_AFTER, lease));
                }
                // The room does not know the file any more.
                None => self.leases.release(&lease),
            }
        }
    }

    fn give_up_overdue(&mut self) {
        while let Some((_, lease)) = self.broken.pop_front_if(|(end, _)| *end <= Instant::now()) {
            if !lease.is_given_up() {
                self.leases.release(&lease);
                let overdue = self.leases.overdue.fetch_add(1, Ordering::Relaxed) + 1;
                if overdue.is_power_of_two() {
                    tracing::warn!(
                        "{overdue} leases were given up without the room's answer so far: it has not forgotten what it cached"
                    );
                }
            }
        }
    }
}
