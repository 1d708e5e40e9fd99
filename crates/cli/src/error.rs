//! The errors of the tool, with hints.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The commands that start the daemon, for hints.
pub(crate) const START: &str = "`tern daemon --detach`, or with systemd `tern daemon --unit > /etc/systemd/system/ternd.service && systemctl enable --now ternd`";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No daemon can be reached.
    #[error("cannot reach ternd at {}", path.display())]
    NoDaemon {
        /// Path of its socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The daemon closed the connection, or sent something unexpected.
    #[error("ternd did not answer")]
    NoAnswer {
        /// The cause of the failure.
        source: io::Error,
    },
    /// The daemon was silent for too long.
    #[error("ternd does not answer: it has been silent for {} s", within.as_secs_f64())]
    Silent {
        /// The time that was waited.
        within: Duration,
        /// Path of the daemon's log.
        log: PathBuf,
    },
    /// The daemon's message is malformed.
    #[error("ternd's answer cannot be read")]
    Codec(#[from] control_protocol::codec::CodecError),
    /// The daemon or another node refused the request.
    #[error("{reason}")]
    Refused {
        /// The reason for the refusal.
        reason: String,
        /// What the user can do.
        hint: Option<String>,
    },
    /// The identity of this node cannot be used.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// The inviting node cannot be reached.
    #[error("cannot join through {address}")]
    Join {
        /// Address of the inviting node.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// A process of a job takes no signal from this user.
    #[error("process {pid} of the job cannot be signalled")]
    JobProcess {
        /// PID of the process.
        pid: i32,
        /// The system's error.
        source: io::Error,
    },
    /// A job makes processes faster than they can be stopped.
    #[error("job {job} goes on making processes")]
    JobGrows {
        /// The job as the user calls it.
        job: String,
    },
    /// The process runs at home, where nothing of tern's counts its calls.
    #[error("process {pid} is not away")]
    NotAway {
        /// PID at home.
        pid: i32,
    },
    /// `tern run --cosched` cannot make its job.
    #[error("{reason}")]
    Coscheduling {
        /// The reason, in words.
        reason: String,
    },
    /// `tern run` cannot find the program.
    #[error("{program}: not found")]
    NotFound {
        /// Program as given by the user.
        program: String,
    },
    /// `tern run` cannot execute the program.
    #[error("{program}: cannot be executed")]
    NotExecutable {
        /// Program as given by the user.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// `tern run --strict` or `--local` was given a program that only home can execute.
    #[error(
        "{program}: only its home can execute it (set-user-id, unreadable, or 32-bit), and it was not to run there"
    )]
    OnlyAtHome {
        /// Path of the program.
        program: String,
    },
    /// No user of this machine has the name.
    #[error("no user is called {user}")]
    NoUser {
        /// Name as given by the user.
        user: String,
    },
    /// The text names no nodes.
    #[error(transparent)]
    Nodes(#[from] control_protocol::nodes::NodesError),
    /// A local operation failed.
    #[error("cannot {what}")]
    Local {
        /// The operation, a verb with its object.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// Gives a hint about what the user can do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::NoDaemon { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some("may this user use tern on this machine?".into()),
            Error::NoDaemon { .. } => Some(format!("is ternd running? (as root, after tern init or tern join TOKEN: {START})")),
            Error::Silent { log, .. } => Some(format!(
                "is ternd stopped, or this machine overloaded? `tern doctor` looks at this machine; ternd's log is {}; --timeout and TERN_TIMEOUT say how long to wait",
                log.display()
            )),
            Error::Refused { hint, .. } => hint.clone(),
            Error::Nodes(_) => Some("`tern nodes` lists the nodes, `tern sh --help` the ways to name them".into()),
            Error::NotAway { pid } => Some(format!("`strace -c -p {pid}` counts calls at home; `tern ps` lists processes that are away")),
            Error::Identity(identity::Error::Present { .. }) => Some(format!(
                "this machine is a node already: {START} starts its daemon, `tern invite` admits other machines, `tern leave` ends the membership"
            )),
            Error::Join { .. } => Some("is ternd running there, and its TCP port open? Invitations can be redeemed only where they were issued".into()),
            Error::Local { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some("try as root".into()),
            Error::Identity(identity::Error::File { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => Some("try as root".into()),
            _ => None,
        }
    }

    /// Gives the exit status: 1; for `run` 127 (not found), 126 (not executable) or 125 (everything
    /// else), as env(1) does.
    pub fn status(&self, run: bool) -> u8 {
        match self {
            Error::NotFound { .. } => 127,
            Error::NotExecutable { .. } => 126,
            _ if run => 125,
            _ => 1,
        }
    }

    /// Prints the whole chain of errors and the hint.
    pub fn print(&self) {
        let mut line = format!("tern: {self}");
        let mut source = std::error::Error::source(self);
        while let Some(e) = source {
            line = format!("{line}: {e}");
            source = e.source();
        }
        eprintln!("{line}");
        if let Some(hint) = self.hint() {
            eprintln!("hint: {hint}");
        }
    }
}
