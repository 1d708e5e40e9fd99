//! The packets that a job and the coordinator send each other.

use std::io;
use std::os::fd::AsFd;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Longest packet, bytes.
pub(super) const PACKET_BYTES: usize = 8 << 10;
/// First byte of a job's packets: others begin with [`abi::spread::ASK`].
pub(super) const JOB_TAG: u8 = b'J';
/// Most bytes of a program's arguments that the coordinator is told.
const ARGUMENT_BYTES: usize = 3 << 10;

/// Job to coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FromJob {
    /// A program is to be executed. Answered by a [`Turn`].
    Begins(Command),
    /// The host did not take it, and it runs here.
    Refused {
        /// The reason that was given.
        why: String,
    },
    /// Its host is lost, and it is to run again. Answered by a [`Turn`].
    Again,
    /// The program has ended.
    Ended {
        /// Time from its start to its end, milliseconds.
        ran_ms: u64,
        /// CPU time that was used at home, milliseconds.
        cpu_ms: u64,
    },
}

/// Coordinator to job: where the program runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Turn {
    /// On this node.
    Home,
    /// On the node of this name.
    On(String),
}

/// A program and its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Command {
    /// Path of its file.
    pub(super) path: String,
    /// File name of the interpreter, if the file is a script.
    pub(super) interpreter: Option<String>,
    /// Its arguments without its name, as many as fit.
    pub(super) arguments: Vec<String>,
}

impl Command {
    /// Keeps as many arguments as fit a packet.
    pub(super) fn new(path: String, interpreter: Option<String>, arguments: impl Iterator<Item = String>) -> Command {
        let mut left = ARGUMENT_BYTES;
        let fits = |word: &String| {
            let fits = word.len() < left;
            left = left.saturating_sub(word.len() + 1);
            fits
        };
        Command { path, interpreter, arguments: arguments.take_while(fits).collect() }
    }

    /// Calls this with the command as the policy knows it.
    pub(super) fn as_invocation<T>(&self, use_it: impl FnOnce(&policy::spread::Invocation<'_>) -> T) -> T {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let interpreter = self.interpreter.as_deref();
        use_it(&policy::spread::Invocation { path: &self.path, interpreter, arguments: &arguments })
    }
}

/// Sends a job's packet.
pub(super) fn say(socket: impl AsFd, message: &FromJob) -> io::Result<()> {
    let bytes = postcard::to_allocvec(message).map_err(io::Error::other)?;
    packet::send(socket, &[&[JOB_TAG], bytes.as_slice()].concat(), &[])
}

/// Reads a packet that is not empty.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    postcard::from_bytes(bytes).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_fit_a_packet() {
        let words = (0..100_000).map(|n| format!("file{n}.o"));
        let command = Command::new("p".repeat(4096), None, words);
        assert!(command.arguments.len() > 100);
        assert!(postcard::to_allocvec(&FromJob::Begins(command)).unwrap().len() < PACKET_BYTES);
    }
}
