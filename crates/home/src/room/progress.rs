//! Who watches a move: the tool that waits for it. It is told once a second how far it is, and may
//! call it off before the commit point.

use control_protocol::moves::{Progress, Stage};
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time between two looks whether the tool has called the move off.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The time between two reports to the tool.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Tells of pages that follow: bytes that were sent, and bytes that are left.
type OutboundPostcopy = Box<dyn Fn() -> (u64, u64) + Send>;

/// How far a move is; shared by the thread that moves and the one that tells.
#[derive(Default)]
pub struct MoveProgress {
    stage: Mutex<(Stage, Option<OutboundPostcopy>)>,
    sent_bytes: AtomicU64,
    left_bytes: AtomicU64,
    wire_bytes: AtomicU64,
    called_off: AtomicBool,
}

impl std::fmt::Debug for MoveProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("MoveProgress").field(&self.read()).finish()
    }
}

impl MoveProgress {
    fn lock(&self) -> MutexGuard<'_, (Stage, Option<OutboundPostcopy>)> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a stage, in which at most `left_bytes` are to be sent.
    pub fn begin(&self, stage: Stage, left_bytes: u64) {
        self.lock().0 = stage;
        self.left_bytes.store(left_bytes, Ordering::Relaxed);
    }

    /// Counts bytes of memory that were sent.
    pub fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        let less = |left: u64| Some(left.saturating_sub(bytes));
        // The closure always gives a value.
        let _ = self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// The most bytes that are still to be sent.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes.load(Ordering::Relaxed)
    }

    /// Counts bytes of frames of pages, sent or received.
    pub fn count_wire(&self, bytes: u64) {
        self.wire_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of all frames of pages so far.
    pub fn wire_bytes(&self) -> u64 {
        self.wire_bytes.load(Ordering::Relaxed)
    }

    /// Begins the stage in which the process runs at its new place; `following` says how far its
    /// memory is.
    pub fn follow(&self, following: impl Fn() -> (u64, u64) + Send + 'static) {
        *self.lock() = (Stage::Follows, Some(Box::new(following)));
    }

    /// Tells whether the user has called the move off.
    pub fn is_called_off(&self) -> bool {
        self.called_off.load(Ordering::Relaxed)
    }

    /// Reads the stage, the bytes of memory that were sent, and the bytes that are left.
    fn read(&self) -> (Stage, u64, u64) {
        let sent = self.sent_bytes.load(Ordering::Relaxed);
        match &*self.lock() {
            (stage, Some(following)) => {
                let (more, left) = following();
                (*stage, sent + more, left)
            }
            (stage, None) => (*stage, sent, self.left_bytes.load(Ordering::Relaxed)),
        }
    }
}

/// Waits for the end of a move, and reports to the tool meanwhile. `None`: the move's thread ended
/// without a result.
///
/// `silent_ms`: for how long the other node has not answered, if it owes an answer.
pub fn wait<T>(
    progress: &MoveProgress,
    to: &str,
    tool: Option<&OwnedFd>,
    end: &Receiver<T>,
    silent_ms: impl Fn() -> Option<u64>,
) -> Option<T> {
    let mut meter = Meter::begin();
    loop {
        match tool
            .map_or_else(|| end.recv().map_err(|_| RecvTimeoutError::Disconnected), |_| end.recv_timeout(LOOK_EVERY))
        {
            Ok(ended) => return Some(ended),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Some(tool) = tool else { continue };
        if has_called_off(tool) {
            progress.called_off.store(true, Ordering::Relaxed);
        }
        if meter.told.elapsed() >= TELL_EVERY {
            tell(tool, Progress { to: to.to_owned(), silent_ms: silent_ms(), ..meter.read(progress) });
        }
    }
}

/// The last report to the tool.
struct Meter {
    told: Instant,
    sent_bytes: u64,
    memory_bytes: u64,
}

impl Meter {
    fn begin() -> Meter {
        Meter { told: Instant::now(), sent_bytes: 0, memory_bytes: 0 }
    }

    /// How far the move is, and how fast since the last time. What the link took counts as sent:
    /// pages that go packed, or are there already, take less of it.
    fn read(&mut self, progress: &MoveProgress) -> Progress {
        let (stage, memory_bytes, left_bytes) = progress.read();
        let (sent_bytes, elapsed_s) = (progress.wire_bytes(), self.told.elapsed().as_secs_f64());
        let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 / elapsed_s) as u64;
        let bytes_per_s = rate(sent_bytes, self.sent_bytes);
        let memory_per_s = rate(memory_bytes, self.memory_bytes);
        *self = Meter { told: Instant::now(), sent_bytes, memory_bytes };
        Progress { stage, sent_bytes, left_bytes, bytes_per_s, memory_per_s, ..Progress::default() }
    }
}

/// Tells whether the tool has shut down its sending direction, which calls the move off. This stays
/// so, and both parts of a move in two parts see it. A tool that has ended has closed both
/// directions, which calls nothing off.
fn has_called_off(tool: &OwnedFd) -> bool {
    let mut polled = libc::pollfd { fd: tool.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one live pollfd.
    unsafe { libc::poll(&mut polled, 1, 0) };
    polled.revents & (libc::POLLRDHUP | libc::POLLHUP) == libc::POLLRDHUP
}

/// Sends the tool a report; a tool that does not read misses some.
fn tell(tool: &OwnedFd, progress: Progress) {
    if let Ok(packet) = control_protocol::tool::progress(progress) {
        let _ = os::socket::send(tool.as_fd(), &[IoSlice::new(&packet)], &[], libc::MSG_DONTWAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_follows_counts_beside_what_was_sent() {
        let progress = MoveProgress::default();
        progress.begin(Stage::Still, 100);
        progress.sent(30);
        assert_eq!(progress.read(), (Stage::Still, 30, 70));
        progress.sent(90);
        assert_eq!(progress.read(), (Stage::Still, 120, 0));
        progress.follow(|| (5, 7));
        assert_eq!(progress.read(), (Stage::Follows, 125, 7));
    }

    #[test]
    fn packed_pages_count_as_what_the_link_took() {
        let progress = MoveProgress::default();
        progress.begin(Stage::Ahead, 1000);
        progress.sent(800);
        progress.count_wire(100);
        let mut meter = Meter { told: Instant::now() - Duration::from_secs(1), ..Meter::begin() };
        let progress = meter.read(&progress);
        assert_eq!((progress.sent_bytes, progress.left_bytes), (100, 200));
        assert!((90..=100).contains(&progress.bytes_per_s) && (700..=800).contains(&progress.memory_per_s));
    }

    #[test]
    fn a_tool_calls_off_and_one_that_goes_does_not() {
        for calls in [true, false] {
            let (ours, theirs) = os::socket::pair().unwrap();
            let progress = MoveProgress::default();
            // SAFETY: no memory is passed.
            unsafe { libc::shutdown(theirs.as_raw_fd(), libc::SHUT_WR) };
            let _stays = calls.then_some(theirs);
            let (to, end) = channel();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    // Nothing tells of looks that found nothing: time must pass for a few.
                    std::thread::sleep(3 * LOOK_EVERY);
                    while calls && !progress.is_called_off() {
                        std::thread::yield_now();
                    }
                    to.send(7).unwrap();
                });
                assert_eq!(wait(&progress, "n2", Some(&ours), &end, || None), Some(7));
            });
            assert_eq!(progress.is_called_off(), calls);
        }
    }
}
