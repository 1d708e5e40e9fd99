//! What can go wrong in the daemon, in words.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the daemon could not start or do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node's identity.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// A file or directory.
    #[error("cannot {what} {}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason that the system gave.
        source: io::Error,
    },
    /// A local socket.
    #[error("cannot {what}")]
    Socket {
        /// What was tried.
        what: String,
        /// The reason that the system gave.
        source: io::Error,
    },
    /// Another daemon serves this run directory.
    #[error("another ternd already serves {}", run_dir.display())]
    Running {
        /// The run directory that it serves.
        run_dir: PathBuf,
    },
    /// A member could not be asked.
    #[error("cannot reach node {node} at {address}: {why}")]
    Unreachable {
        /// The node that was asked.
        node: String,
        /// The address at which it was tried.
        address: SocketAddr,
        /// The reason, in words.
        why: String,
    },
    /// A member said no.
    #[error("node {node} refused: {reason}")]
    Refused {
        /// The node that was asked.
        node: String,
        /// The reason that the node gave.
        reason: String,
    },
    /// A policy setting that is not possible.
    #[error(transparent)]
    Setting(#[from] ::policy::SettingError),
    /// A placement that is not possible.
    #[error(transparent)]
    Placement(#[from] crate::placement::Refusal),
    /// A room that did not come up.
    #[error("no room on {node}: {why}")]
    Room {
        /// The node that should host it.
        node: String,
        /// The step that failed, and its reason.
        why: String,
    },
    /// A process that must stay at home.
    #[error("this process cannot be placed: {why}")]
    StaysHome {
        /// The reason, in words.
        why: String,
    },
    /// A process that lives in a sandbox.
    #[error("process {pid} stays here: {confinement}")]
    Confined {
        /// PID of the process.
        pid: i32,
        /// The sandbox that it lives in.
        confinement: os::confinement::Confinement,
    },
    /// A process with root's rights, and a node that is not trusted with them.
    #[error("process {pid} stays here: {}", untrusted(*power, node.as_deref()))]
    RootStaysHome {
        /// PID of the process.
        pid: i32,
        /// Which right it has.
        power: os::superuser::Power,
        /// The node that was to host it; any, if absent.
        node: Option<String>,
    },
    /// A process that was not moved.
    #[error("process {pid} was not moved: {why}")]
    NotMoved {
        /// PID of the process.
        pid: i32,
        /// The reason, in words.
        why: String,
    },
    /// A node that is short of what a process needs.
    #[error("{node} is short for process {pid}: {why}")]
    Short {
        /// The node that was asked for.
        node: String,
        /// PID of the process that this is about.
        pid: i32,
        /// The amounts that are needed and available.
        why: String,
    },
    /// An address that an invitation cannot name.
    #[error("others cannot reach this node at {address}, and an invitation would name that address")]
    Loopback {
        /// Where the daemon listens.
        address: SocketAddr,
    },
    /// This home does not let the user use a node.
    #[error("user {user} may not use node {node}")]
    NodeDenied {
        /// Number of the user at home.
        user: u32,
        /// The name of the node.
        node: String,
        /// The reason for that.
        source: control_protocol::rights::Denied,
    },
    /// A change of rights on nodes is malformed.
    #[error("{change:?}: {why}")]
    NodeRights {
        /// The change as given, shortened.
        change: String,
        /// The reason, in words.
        why: &'static str,
    },
    /// An order about a job.
    #[error(transparent)]
    Job(#[from] ::jobs::JobError),
    /// A job that is to be made of too many processes, or of none.
    #[error("a job is made of 1 to {most} processes, not of {named}")]
    JobProcesses {
        /// The number of processes that were named.
        named: usize,
        /// The most that may be.
        most: usize,
    },
    /// Not allowed to this user.
    #[error("{what} is for root")]
    NotAllowed {
        /// What was asked.
        what: &'static str,
    },
    /// A request whose sender is not served.
    #[error(transparent)]
    Caller(#[from] crate::caller::CallerError),
    /// A message that is none.
    #[error(transparent)]
    Codec(#[from] control_protocol::codec::CodecError),
}

/// Why a process with root's rights stays, in words.
fn untrusted(power: os::superuser::Power, node: Option<&str>) -> String {
    let whom = node.map_or_else(|| "no other node is".to_owned(), |node| format!("node {node} is not"));
    format!("it has root's rights over this node's files ({power}), and {whom} trusted with them")
}

impl Error {
    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Error {
        Error::File { what, path: path.into(), source }
    }

    pub(crate) fn socket(what: impl Into<String>, source: io::Error) -> Error {
        Error::Socket { what: what.into(), source }
    }

    /// A node that hosts rooms hosts no more of them, as far as it says.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Error::Refused { .. } | Error::Placement(crate::placement::Refusal::Full { .. }))
    }

    /// The whole chain, as one line.
    pub(crate) fn chain(&self) -> String {
        let mut line = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(e) = source {
            line = format!("{line}: {e}");
            source = e.source();
        }
        line
    }

    /// The number of errno(3) by which programs tell failures apart (the table of libtern(3)).
    pub(crate) fn errno(&self) -> i32 {
        match self {
            Error::Placement(refusal) => refusal.errno(),
            Error::Unreachable { .. } => libc::EHOSTUNREACH,
            Error::Refused { .. } | Error::NodeDenied { .. } => libc::EACCES,
            Error::Short { .. } => libc::ENOMEM,
            Error::NotAllowed { .. } | Error::RootStaysHome { .. } | Error::Caller(_) => libc::EPERM,
            Error::StaysHome { .. } | Error::Confined { .. } => libc::EOPNOTSUPP,
            Error::NotMoved { .. } => libc::EBUSY,
            Error::Setting(_)
            | Error::NodeRights { .. }
            | Error::Loopback { .. }
            | Error::Job(_)
            | Error::JobProcesses { .. } => libc::EINVAL,
            Error::Codec(_) => libc::EPROTO,
            Error::Identity(_)
            | Error::File { .. }
            | Error::Socket { .. }
            | Error::Running { .. }
            | Error::Room { .. } => libc::EIO,
        }
    }

    /// What the user may do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Error::Placement(refusal) => refusal.hint(),
            Error::Short { .. } => {
                Some("`--force` tries it all the same, and others there may be killed for want of memory".into())
            }
            Error::Room { node, .. } => {
                Some(format!("`tern log` here and on {node} says more; `tern doctor {node}` tests the pair"))
            }
            Error::Loopback { .. } => Some(
                "end ternd, and start it with the address at which others reach this machine: `tern daemon --listen ADDR`; \
                 `tern invite --loopback` invites a daemon of this very machine"
                    .into(),
            ),
            Error::Confined { confinement, .. } => confinement.hint().map(str::to_owned),
            Error::RootStaysHome { node, .. } => {
                let node = node.as_deref().unwrap_or("all");
                Some(format!(
                    "--as-root sends it all the same, this once; `tern policy set root-on={node}` trusts that node with all of root's processes"
                ))
            }
            Error::Unreachable { node, .. } => Some(format!("`tern doctor {node}` tests the pair")),
            Error::Caller(_) => Some("run `tern` itself, from a program that gives no rights (not set-user-ID)".into()),
            Error::Identity(identity::Error::NoAuthority) => {
                Some("run `tern invite` on a node that was not invited --without-authority".into())
            }
            _ => None,
        }
    }
}
