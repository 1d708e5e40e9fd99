//! The errors of a lab.

use std::fmt::Display;
use std::io;

/// Why a command on a lab failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("cannot {what}")]
    System {
        /// The operation, which completes "cannot ...".
        what: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// An argument is not acceptable.
    #[error("{what} {value:?}: {reason}")]
    Invalid {
        /// The kind of argument.
        what: &'static str,
        /// Value as given.
        value: String,
        /// The reason for the refusal.
        reason: String,
    },
    /// The user is not root, which labs need.
    #[error("a lab needs root: namespaces, mounts and cgroups are made for each node (try sudo)")]
    NotRoot,
    /// A program or package is missing on this machine.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// The missing program or package.
        what: String,
        /// What the user can do.
        remedy: String,
    },
    /// No lab has this name.
    #[error("no lab named {0} is up (`tern lab up --nodes 3` makes one)")]
    NoLab(String),
    /// A lab of this name is already up.
    #[error("a lab named {0} is already up (`tern lab down` ends it, `--name` chooses another)")]
    AlreadyUp(String),
    /// The lab has no such node.
    #[error("no node {node} in this lab; there are {known}")]
    NoNode {
        /// Name of the node.
        node: String,
        /// The nodes of the lab.
        known: String,
    },
    /// A node exists, but its init has ended.
    #[error("node {0} is down: its init has ended")]
    NodeDown(String),
    /// A part of the lab failed while it was set up.
    #[error("{who}: {reason}")]
    Setup {
        /// The part: node, hub or relay.
        who: String,
        /// The error of that part.
        reason: String,
    },
    /// A condition was not reached in time.
    #[error("waited {seconds} s for {what}{detail}")]
    Timeout {
        /// The condition that was awaited.
        what: String,
        /// Time limit, seconds.
        seconds: u64,
        /// The state that was seen last.
        detail: String,
    },
    /// A file of the lab is malformed.
    #[error("{path} is not a lab's state: {source}")]
    State {
        /// Path of the file.
        path: String,
        /// The JSON reader's error.
        #[source]
        source: serde_json::Error,
    },
    /// A command of the lab's own failed in a node.
    #[error("`{command}` on {node} ended with {status}: {stderr}")]
    Command {
        /// Name of the node.
        node: String,
        /// The command line.
        command: String,
        /// Exit status of the command.
        status: String,
        /// Text on its standard error.
        stderr: String,
    },
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds the failed operation to a system's error.
pub trait Context<T> {
    /// Adds `what`, which completes "cannot ...".
    fn context<D: Display>(self, what: impl FnOnce() -> D) -> Result<T>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context<D: Display>(self, what: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|e| Error::System { what: what().to_string(), source: e.into() })
    }
}

/// Formats the error and all its causes on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line.push_str(&format!(": {error}"));
        cause = error.source();
    }
    line
}
