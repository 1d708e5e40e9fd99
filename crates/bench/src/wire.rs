//! The traffic between home and room, as the stewards count it.

use control_protocol::steward::{FromSteward, ToSteward};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Frames and bytes in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of frames.
    pub frames: u64,
    /// Number of bytes before encryption.
    pub bytes: u64,
}

/// Frames and bytes for each repetition of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerRepetition {
    /// Number of frames.
    pub frames: f64,
    /// Number of bytes before encryption.
    pub bytes: f64,
}

impl Traffic {
    /// Divides the traffic among repetitions.
    pub fn over(self, repetitions: f64) -> PerRepetition {
        PerRepetition { frames: self.frames as f64 / repetitions, bytes: self.bytes as f64 / repetitions }
    }
}

/// The traffic of each room of this home so far, by its steward's socket. Empty if the user may not
/// ask (the sockets are root's).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(HashMap<PathBuf, Traffic>);

impl Tally {
    /// Gives the traffic since `before`. Rooms that did not exist then count from their beginning.
    pub fn since(&self, before: &Tally) -> Traffic {
        self.0.iter().fold(Traffic::default(), |sum, (room, now)| {
            let then = before.0.get(room).copied().unwrap_or_default();
            Traffic { frames: sum.frames + (now.frames - then.frames), bytes: sum.bytes + (now.bytes - then.bytes) }
        })
    }
}

/// Asks all stewards of this home.
pub fn tally(run_dir: &Path) -> Tally {
    let of = |socket: PathBuf| match ask(&socket, &ToSteward::Traffic) {
        Some(FromSteward::Traffic { frames, bytes }) => Some((socket, Traffic { frames, bytes })),
        _ => None,
    };
    Tally(sockets(run_dir).into_iter().filter_map(of).collect())
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
    let entries = std::fs::read_dir(control_protocol::paths::rooms_dir(run_dir)).into_iter().flatten().flatten();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(rooms: &[(&str, u64)]) -> Tally {
        let of = |&(room, frames): &(&str, u64)| (PathBuf::from(room), Traffic { frames, bytes: frames * 10 });
        Tally(rooms.iter().map(of).collect())
    }

    /// Has failed: the counters of a closed room were taken off those of the next one.
    #[test]
    fn a_new_room_counts_from_its_beginning() {
        let since = tally(&[("kept", 7), ("new", 3)]).since(&tally(&[("kept", 5), ("closed", 1000)]));
        assert_eq!(since, Traffic { frames: 5, bytes: 50 });
    }
}
