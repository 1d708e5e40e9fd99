//! What passed between home and room, as the stewards count it.

use ctl::steward::{FromSteward, ToSteward};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Frames and bytes, both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames.
    pub frames: u64,
    /// Bytes before encryption.
    pub bytes: u64,
}

impl Traffic {
    /// What came since.
    pub fn since(self, before: Traffic) -> Traffic {
        Traffic { frames: self.frames.saturating_sub(before.frames), bytes: self.bytes.saturating_sub(before.bytes) }
    }
}

/// The sum over all rooms of this home. Zero for who may not ask (the sockets are root's).
pub fn traffic(run_dir: &Path) -> Traffic {
    sockets(run_dir).iter().fold(Traffic::default(), |sum, socket| match ask(socket, &ToSteward::Traffic) {
        Some(FromSteward::Traffic { frames, bytes }) => {
            Traffic { frames: sum.frames + frames, bytes: sum.bytes + bytes }
        }
        _ => sum,
    })
}

/// Ends all rooms of this home on `host`, so that the next one begins with cold caches.
pub fn close_rooms(run_dir: &Path, host: &str) {
    for socket in sockets(run_dir) {
        if matches!(ask(&socket, &ToSteward::List), Some(FromSteward::Guests { host: h, .. }) if h == host) {
            ask(&socket, &ToSteward::Close);
        }
    }
}

fn sockets(run_dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(ctl::paths::rooms_dir(run_dir)).into_iter().flatten().flatten();
    entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "steward")).collect()
}

fn ask(socket: &Path, message: &ToSteward) -> Option<FromSteward> {
    const WITHIN: Duration = Duration::from_secs(5);
    const ANSWER_BYTES: usize = 1 << 20;
    let socket = packet::connect(socket).ok()?;
    packet::set_timeout(&socket, Some(WITHIN)).ok()?;
    packet::send(&socket, &postcard::to_stdvec(message).ok()?, &[]).ok()?;
    let answer = packet::receive(&socket, ANSWER_BYTES).ok()?;
    postcard::from_bytes(&answer.bytes).ok()
}
