//! What can go wrong in a lab, in words.

use std::fmt::Display;
use std::io;

/// Why a lab could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed; says what was tried on what.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// Something given on the command line is not acceptable.
    #[error("{what} {value:?}: {reason}")]
    Invalid {
        /// Which thing.
        what: &'static str,
        /// What was given.
        value: String,
        /// Why it is refused.
        reason: String,
    },
    /// Labs need root.
    #[error("a lab needs root: namespaces, mounts and cgroups are made for each node (try sudo)")]
    NotRoot,
    /// A program or package is not on this machine.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// There is no lab of this name.
    #[error("no lab named {0} is up (`tern lab up --nodes 3` makes one)")]
    NoLab(String),
    /// A lab of this name exists.
    #[error("a lab named {0} is already up (`tern lab down` ends it, `--name` chooses another)")]
    AlreadyUp(String),
    /// There is no such node.
    #[error("no node {node} in this lab; there are {known}")]
    NoNode {
        /// What was asked for.
        node: String,
        /// What there is.
        known: String,
    },
    /// A node exists, but its init has ended.
    #[error("node {0} is down: its init has ended")]
    NodeDown(String),
    /// Part of the lab reported a failure while it was set up.
    #[error("{who}: {reason}")]
    Setup {
        /// Node, hub or relay.
        who: String,
        /// What it said.
        reason: String,
    },
    /// A condition was not reached in time.
    #[error("waited {seconds} s for {what}{detail}")]
    Timeout {
        /// For what.
        what: String,
        /// How long, seconds.
        seconds: u64,
        /// What was seen last.
        detail: String,
    },
    /// A file of the lab does not hold what it should.
    #[error("{path} is not a lab's state: {source}")]
    State {
        /// The file.
        path: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A command of the lab's own failed in a node.
    #[error("`{command}` on {node} ended with {status}: {stderr}")]
    Command {
        /// Where.
        node: String,
        /// What.
        command: String,
        /// How it ended.
        status: String,
        /// What it said.
        stderr: String,
    },
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Says what was tried when a system call fails.
pub trait Context<T> {
    /// `what` completes the sentence "cannot ...".
    fn context<D: Display>(self, what: impl FnOnce() -> D) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context<D: Display>(self, what: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|e| Error::System { what: what().to_string(), source: e.into() })
    }
}

/// The error and all its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {error}"));
        cause = error.source();
    }
    line
}
