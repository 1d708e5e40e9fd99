//! The channel between a process of the lab and its parent.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Context, Error, Result, chain};
use crate::options::{LabName, Options};
use crate::programs::Programs;

/// The longest time that a node or the relay may take to answer.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A stream of JSON lines between a process of the lab and its parent. It ends with either process.
pub struct Channel(BufReader<UnixStream>);

/// The answer of a child after its setup.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The child is set up.
    Ready,
    /// The setup failed for this reason.
    Failed(String),
    /// The hub found a living lab of its name.
    AlreadyUp,
}

impl Channel {
    /// Creates both ends. The second becomes a child's standard input.
    pub fn pair() -> Result<(Channel, OwnedFd)> {
        let (own, other) = UnixStream::pair().context(|| "make a socket pair")?;
        own.set_read_timeout(Some(ANSWER_LIMIT)).context(|| "limit the wait for an answer")?;
        Ok((Channel(BufReader::new(own)), other.into()))
    }

    /// Sets the time that the other end may take from now on.
    pub fn limit(&self, limit: Duration) -> Result<()> {
        self.0.get_ref().set_read_timeout(Some(limit)).context(|| "limit the wait for an answer")
    }

    /// Takes the child's end from standard input.
    pub fn standard_input() -> Result<Channel> {
        let fd = std::io::stdin().as_fd().try_clone_to_owned().context(|| "take the channel to the parent")?;
        Ok(Channel(BufReader::new(fd.into())))
    }

    /// Sends one message.
    pub fn send(&self, message: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(message).map_err(std::io::Error::from).context(|| "encode a message")?;
        line.push(b'\n');
        self.0.get_ref().write_all(&line).context(|| "send to the other end of the lab's channel")
    }

    /// Receives one message.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).context(|| "receive from the other end of the lab's channel")?;
        match read {
            0 => Err(std::io::Error::from(ErrorKind::UnexpectedEof)).context(|| "receive: the other end has died"),
            _ => serde_json::from_str(&line).map_err(std::io::Error::from).context(|| "decode a message"),
        }
    }

    /// Answers `Ready`, or reports the error.
    pub fn answer(&self, outcome: &Result<()>) -> Result<()> {
        self.send(&match outcome {
            Ok(()) => Answer::Ready,
            Err(Error::AlreadyUp(_)) => Answer::AlreadyUp,
            Err(error) => Answer::Failed(chain(error)),
        })
    }

    /// Waits until the child `who` is set up.
    pub fn expect_ready(&mut self, who: &str, name: &LabName) -> Result<()> {
        match self.receive() {
            Ok(Answer::Ready) => Ok(()),
            Ok(Answer::AlreadyUp) => Err(Error::AlreadyUp(name.to_string())),
            Ok(Answer::Failed(reason)) => Err(Error::Setup { who: who.into(), reason }),
            Err(error) => Err(Error::Setup { who: who.into(), reason: chain(&error) }),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}

/// The messages of `up` to the hub: first `Make`, then `Commit` when the lab is complete.
#[derive(Debug, Serialize, Deserialize)]
pub enum HubRequest {
    /// Make this lab.
    Make {
        /// Options of the lab.
        options: Box<Options>,
        /// Programs of the lab and its nodes.
        programs: Programs,
    },
    /// Keep the lab when this channel ends.
    Commit,
}
