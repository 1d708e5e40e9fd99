//! The sending direction of a link.

use crate::posts::{KEPT, KEPT_BYTES, Posts};
use crate::records::Seal;
use crate::setup::{self, UNSENT_BYTES, let_lie, lose_after};
use crate::{Counters, LinkError, lock};
use room_protocol::{FRAME_BYTES_MAX, Head, HeadError, Kind};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// The number of times that a patient sender lets others pass, for one frame.
const PATIENCE: usize = 64;

/// The sending end of a link, shared by threads.
pub struct Sender {
    /// Locked from encryption to the end of the write, so that records reach the socket in the
    /// order of their numbers.
    out: Mutex<Out>,
    /// The number of threads that wait for `out` and are not patient.
    hurried: AtomicUsize,
    counters: Arc<Counters>,
    /// A duplicate of the socket, for threads that must not wait for a sender.
    watched: Option<TcpStream>,
    /// How often the time limit was set.
    limits_set: Mutex<u64>,
    pub(crate) posts: Arc<Posts>,
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.posts.close();
    }
}

struct Out {
    socket: TcpStream,
    seal: Seal,
    /// The most unsent bytes in the socket.
    unsent_bytes: u32,
    /// Encrypted bytes that are not written yet.
    encrypted: Vec<u8>,
    /// The number of [`Gathered`] guards that are alive.
    gathering: usize,
}

/// Beyond this size gathered bytes are written all the same.
const GATHERED_BYTES: usize = 256 << 10;

/// A guard that gathers frames. While it lives, sent frames are kept; then one write sends them, so
/// that the peer wakes up once.
pub struct Gathered<'a>(&'a Sender);

impl Drop for Gathered<'_> {
    fn drop(&mut self) {
        let mut out = lock(&self.0.out);
        out.gathering -= 1;
        // The receiver notices a link that fails.
        if out.gathering == 0 {
            let _ = out.write();
        }
    }
}

impl Out {
    fn write(&mut self) -> Result<(), LinkError> {
        let written = self.socket.write_all(&self.encrypted);
        self.encrypted.clear();
        if self.encrypted.capacity() > 4 << 20 {
            self.encrypted = Vec::new();
        }
        written.map_err(|source| LinkError::Socket { doing: "sending", source })
    }
}

impl Sender {
    pub(crate) fn new(socket: TcpStream, seal: Seal, counters: Arc<Counters>) -> Sender {
        let watched = socket.try_clone().ok();
        let out = Mutex::new(Out { socket, seal, unsent_bytes: UNSENT_BYTES, encrypted: Vec::new(), gathering: 0 });
        let posts = Arc::default();
        Sender { out, hurried: AtomicUsize::new(0), counters, watched, limits_set: Mutex::new(0), posts }
    }

    /// Gathers the frames of all threads until the guard is dropped. The guard must live for a
    /// moment only: no thread may wait for an answer meanwhile.
    pub fn gather(&self) -> Gathered<'_> {
        lock(&self.out).gathering += 1;
        Gathered(self)
    }

    /// Sends one frame whose body is the concatenation of `parts`. Blocks while the network is
    /// slower.
    pub fn send(&self, kind: Kind, mount: u16, seq: u64, parts: &[&[u8]]) -> Result<(), LinkError> {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        let out = lock(&self.out);
        self.hurried.fetch_sub(1, Ordering::Relaxed);
        self.send_with(out, kind, mount, seq, parts)
    }

    /// Sends one frame after all frames of threads that wait to send, with at most `unsent_bytes`
    /// unsent in the socket.
    pub(crate) fn send_patiently(&self, kind: Kind, parts: &[&[u8]], unsent_bytes: u32) -> Result<(), LinkError> {
        let mut out = lock(&self.out);
        for _ in 0..PATIENCE {
            if self.hurried.load(Ordering::Relaxed) == 0 {
                break;
            }
            drop(out);
            std::thread::yield_now();
            out = lock(&self.out);
        }
        if out.unsent_bytes != unsent_bytes {
            let_lie(&out.socket, unsent_bytes)
                .map_err(|source| LinkError::Socket { doing: "setting the limit of unsent bytes", source })?;
            out.unsent_bytes = unsent_bytes;
        }
        self.send_with(out, kind, 0, 0, parts)
    }

    fn send_with(
        &self,
        mut out: MutexGuard<'_, Out>,
        kind: Kind,
        mount: u16,
        seq: u64,
        parts: &[&[u8]],
    ) -> Result<(), LinkError> {
        self.seal(&mut out, Head { body_bytes: 0, kind, mount, seq }, parts)?;
        if out.gathering == 0 || out.encrypted.len() > GATHERED_BYTES {
            out.write()?;
        }
        Ok(())
    }

    /// Encrypts one frame.
    fn seal(&self, out: &mut Out, head: Head, parts: &[&[u8]]) -> Result<(), LinkError> {
        let bytes: usize = parts.iter().map(|p| p.len()).sum();
        if bytes > FRAME_BYTES_MAX {
            return Err(LinkError::Frame(HeadError::Size(bytes as u32)));
        }
        let head = Head { body_bytes: bytes as u32, ..head }.encode();
        out.seal.seal(&head, parts, &mut out.encrypted)?;
        self.counters.count(bytes);
        Ok(())
    }

    /// Encrypts one frame and keeps it for the next write, unless much is kept already.
    pub(crate) fn keep(&self, kind: Kind, mount: u16, seq: u64, parts: &[&[u8]]) -> Result<(), LinkError> {
        let mut out = lock(&self.out);
        self.seal(&mut out, Head { body_bytes: 0, kind, mount, seq }, parts)?;
        if out.encrypted.len() > KEPT_BYTES { out.write() } else { Ok(()) }
    }

    /// Writes what is kept.
    pub(crate) fn write_posted(&self) {
        let mut out = lock(&self.out);
        if out.gathering == 0 && !out.encrypted.is_empty() {
            // The receiver notices a link that fails.
            let _ = out.write();
        }
    }

    /// Starts the thread that writes posted frames. The thread ends with the sender.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn write_posts(self: &Arc<Self>) -> std::io::Result<()> {
        let (posts, sender): (_, Weak<Sender>) = (self.posts.clone(), Arc::downgrade(self));
        let write = move || {
            while posts.wait() {
                std::thread::sleep(KEPT);
                let Some(sender) = sender.upgrade() else { return };
                sender.write_posted();
            }
        };
        std::thread::Builder::new().name("posts".into()).spawn(write).map(drop)
    }

    /// Sends one frame that nobody waits for. The frame may be kept for a moment; call
    /// [`Sender::write_posts`] once before.
    ///
    /// # Errors
    /// The link has failed.
    pub fn post(&self, kind: Kind, mount: u16, seq: u64, parts: &[&[u8]]) -> Result<(), LinkError> {
        self.keep(kind, mount, seq, parts)?;
        self.posts.post();
        Ok(())
    }

    /// Gives the counters of both directions.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Sets the time without contact after which the link counts as lost, instead of
    /// [`crate::LOST_AFTER`].
    ///
    /// # Errors
    /// The kernel refuses the value.
    pub fn lose_after(&self, silence: Duration) -> Result<(), LinkError> {
        let mut limits_set = lock(&self.limits_set);
        *limits_set += 1;
        self.limit(silence)
    }

    fn limit(&self, silence: Duration) -> Result<(), LinkError> {
        // A sender may hold the lock while it waits for a peer that is silent.
        let set = match &self.watched {
            Some(watched) => lose_after(watched, silence),
            None => lose_after(&lock(&self.out).socket, silence),
        };
        set.map_err(|source| LinkError::Socket { doing: "setting the time limit of the link", source })
    }

    /// Does the same as [`Sender::lose_after`] once the peer's kernel owes no answer: the kernel
    /// would end a link at once that has been silent for longer than its new limit. Waits for that,
    /// at most for `patience`; another limit that is set meanwhile stays.
    ///
    /// # Errors
    /// The kernel refuses the value.
    pub fn lose_after_contact(&self, silence: Duration, patience: Duration) -> Result<(), LinkError> {
        const LOOKED_EVERY: Duration = Duration::from_millis(50);
        let (begun, limits_set) = (Instant::now(), *lock(&self.limits_set));
        while self.silence().is_some() && begun.elapsed() < patience {
            std::thread::sleep(LOOKED_EVERY);
        }
        let limits_set_now = lock(&self.limits_set);
        if *limits_set_now == limits_set { self.limit(silence) } else { Ok(()) }
    }

    /// Gives the time for which the peer's kernel has owed an answer; `None` if it owes none.
    pub fn silence(&self) -> Option<Duration> {
        self.watched.as_ref().and_then(setup::silence)
    }

    /// Gives the socket, for questions about it; `None` if the kernel had no descriptor for that.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.watched.as_ref().map(TcpStream::as_fd)
    }

    /// Closes the connection. The receivers at both ends see it closed.
    pub fn close(&self) {
        // A sender may hold the lock while it waits for the peer that is gone, so this must not
        // wait for the lock.
        if let Ok(out) = self.out.try_lock() {
            let _ = out.socket.shutdown(Shutdown::Both);
        }
    }
}
