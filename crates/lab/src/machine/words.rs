//! What the lab and a machine's agent say to each other: frames of a length (4 bytes, little endian) and postcard.

use std::ffi::OsString;
use std::io::{self, Read, Write};

use ctl::tool::{Answer, Request};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Where agents listen. Only the switch is answered.
pub const PORT: u16 = 7;
/// Longest frame, bytes.
const FRAME_BYTES: u32 = 4 << 20;
/// Bytes of a command's input or output in one frame.
pub const PIECE_BYTES: usize = 64 << 10;

/// One connection carries one of these, and its reply.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Ask the machine's ternd. Replied by `Answered`.
    Ask(Request),
    /// Start a daemon with these arguments. Replied by `Done`.
    Start(Vec<OsString>),
    /// Has the daemon ended, and what did it say last? Replied by `Daemon`.
    Daemon,
    /// Kill the daemon. Replied by `Done`.
    KillDaemon,
    /// Run a command: then frames of [`Input`] go there, [`Happened`] comes back. If the connection ends, the command is killed.
    Run {
        /// Program and arguments.
        argv: Vec<OsString>,
        /// Environment.
        environment: Vec<(OsString, OsString)>,
    },
    /// Read CLOCK_REALTIME. Replied by `Clock`.
    Clock,
    /// Set CLOCK_REALTIME forward by so many nanoseconds (or back). Replied by `Done`.
    StepClock(i64),
    /// Let packets to the node of this number be lost, or arrive. Replied by `Done`.
    Reachable(u32, bool),
    /// Names in a directory. Replied by `Names`.
    List(std::path::PathBuf),
}

/// What an agent replies.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// What ternd answered, if it did.
    Answered(Option<Answer>),
    /// It was done; or why not.
    Done(Result<(), String>),
    /// The daemon.
    Daemon {
        /// It runs no more, or was not started.
        ended: bool,
        /// The end of what it said.
        log: String,
    },
    /// Nanoseconds since 1970.
    Clock(i64),
    /// Of a directory; or why not.
    Names(Result<Vec<String>, String>),
}

/// For a command: a piece of its standard input; the last is empty.
#[derive(Debug, Serialize, Deserialize)]
pub struct Input(pub Vec<u8>);

/// From a command.
#[derive(Debug, Serialize, Deserialize)]
pub enum Happened {
    /// A piece of its standard output.
    Out(Vec<u8>),
    /// A piece of its standard error.
    Err(Vec<u8>),
    /// It exited with this status.
    Exited(u8),
    /// It died of this signal.
    Killed(i32),
    /// It could not be started: exit status as of env(1), and why.
    NotRun(u8, String),
}

/// Sends one frame.
pub fn send(mut to: impl Write, word: &impl Serialize) -> io::Result<()> {
    let text = postcard::to_stdvec(word).map_err(io::Error::other)?;
    let mut frame = Vec::with_capacity(4 + text.len());
    frame.extend((text.len() as u32).to_le_bytes());
    frame.extend(text);
    to.write_all(&frame)
}

/// Takes one frame.
pub fn receive<T: DeserializeOwned>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > FRAME_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    let mut text = vec![0; length as usize];
    from.read_exact(&mut text)?;
    postcard::from_bytes(&text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_what_was_sent_and_bounded() {
        let mut bytes = Vec::new();
        send(&mut bytes, &Order::StepClock(-3)).unwrap();
        assert!(matches!(receive(&bytes[..]), Ok(Order::StepClock(-3))));
        assert!(receive::<Order>(&bytes[..5]).is_err());
        assert!(receive::<Order>(&u32::MAX.to_le_bytes()[..]).is_err());
    }
}
