//! Frames that nobody waits for. They are kept for a moment, so that many go in one write and wake
//! the peer once. Any other frame takes them along: frames keep their order.

use crate::{LinkError, Sender, lock};
use room_protocol::Kind;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The longest time for which a posted frame is kept.
const KEPT: Duration = Duration::from_micros(300);
/// Posted frames beyond this size are written at once.
pub(crate) const KEPT_BYTES: usize = 64 << 10;

/// Tells the thread that writes posted frames of them.
#[derive(Default)]
pub(crate) struct Posts {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    None,
    Posted,
    Closed,
}

impl Posts {
    pub(crate) fn post(&self) {
        let mut state = lock(&self.state);
        if *state == State::None {
            *state = State::Posted;
            self.changed.notify_one();
        }
    }

    pub(crate) fn close(&self) {
        *lock(&self.state) = State::Closed;
        self.changed.notify_one();
    }

    /// Waits until a frame is posted; returns false if the sender is gone.
    fn wait(&self) -> bool {
        let waits = self.changed.wait_while(lock(&self.state), |state| *state == State::None);
        let mut state = waits.unwrap_or_else(PoisonError::into_inner);
        let goes_on = *state != State::Closed;
        if goes_on {
            *state = State::None;
        }
        goes_on
    }
}

impl Sender {
    /// Starts the thread that writes posted frames. It ends with the sender.
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

    /// Sends one frame that nobody waits for. It may be kept for a moment; call
    /// [`Sender::write_posts`] once before.
    ///
    /// # Errors
    /// The link has failed.
    pub fn post(&self, kind: Kind, mount: u16, seq: u64, parts: &[&[u8]]) -> Result<(), LinkError> {
        self.keep(kind, mount, seq, parts)?;
        self.posts.post();
        Ok(())
    }
}
