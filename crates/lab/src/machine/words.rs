//! The messages between the lab and a machine's agent: frames of a length (4 bytes, little endian)
//! and postcard.

use std::ffi::OsString;
use std::io::{self, Read, Write};

use control_protocol::tool::{Answer, Request};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The port on which agents listen. They answer only the switch.
pub const PORT: u16 = 7;
/// The longest frame, bytes.
const FRAME_BYTES: u32 = 4 << 20;
/// The most bytes of a command's input or output in one frame.
pub const PIECE_BYTES: usize = 64 << 10;

/// A request. One connection carries one request and its reply.
#[derive(Debug, Serialize, Deserialize)]
pub enum AgentRequest {
    /// Ask the machine's ternd. The reply is `Answered`.
    Ask(Request),
    /// Start a daemon with these arguments. The reply is `Done`.
    Start(Vec<OsString>),
    /// Ask whether the daemon has ended, and for the end of its log. The reply is `Daemon`.
    Daemon,
    /// Kill the daemon. The reply is `Done`.
    KillDaemon,
    /// Run a command. Frames of [`Input`] follow, and frames of [`Happened`] come back. If the
    /// connection ends, the command is killed.
    Run {
        /// Program and arguments.
        argv: Vec<OsString>,
        /// Variables of the environment.
        environment: Vec<(OsString, OsString)>,
    },
    /// Read CLOCK_REALTIME. The reply is `Clock`.
    Clock,
    /// Set CLOCK_REALTIME forward by this many nanoseconds (or back). The reply is `Done`.
    StepClock(i64),
    /// Make packets to the node of this number be lost, or arrive. The reply is `Done`.
    Reachable(u32, bool),
    /// List the names in a directory. The reply is `Names`.
    List(std::path::PathBuf),
}

/// The reply of an agent.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The answer of ternd, if it gave one.
    Answered(Option<Answer>),
    /// Success, or the reason for the failure.
    Done(Result<(), String>),
    /// The state of the daemon.
    Daemon {
        /// Whether the daemon has ended, or was not started.
        ended: bool,
        /// The end of its log.
        log: String,
    },
    /// Nanoseconds since 1970.
    Clock(i64),
    /// The names, or the reason for the failure.
    Names(Result<Vec<String>, String>),
}

/// A piece of a command's standard input; the last piece is empty.
#[derive(Debug, Serialize, Deserialize)]
pub struct Input(pub Vec<u8>);

/// An event of a command.
#[derive(Debug, Serialize, Deserialize)]
pub enum Happened {
    /// A piece of its standard output.
    Out(Vec<u8>),
    /// A piece of its standard error.
    Err(Vec<u8>),
    /// The command exited with this status.
    Exited(u8),
    /// This signal ended the command.
    Killed(i32),
    /// The command could not be started: the exit status of env(1), and the reason.
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

/// Receives one frame.
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
        send(&mut bytes, &AgentRequest::StepClock(-3)).unwrap();
        assert!(matches!(receive(&bytes[..]), Ok(AgentRequest::StepClock(-3))));
        assert!(receive::<AgentRequest>(&bytes[..5]).is_err());
        assert!(receive::<AgentRequest>(&u32::MAX.to_le_bytes()[..]).is_err());
    }
}
