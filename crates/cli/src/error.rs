//! What the tool says when it cannot do what was asked.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// How the daemon is started, for hints.
pub(crate) const START: &str = "`tern daemon --detach`, or with systemd `tern daemon --unit > /etc/systemd/system/ternd.service && systemctl enable --now ternd`";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No daemon.
    #[error("cannot reach ternd at {}", path.display())]
    NoDaemon {
        /// Its socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The daemon went silent or talks nonsense.
    #[error("ternd did not answer")]
    NoAnswer {
        /// Why.
        source: io::Error,
    },
    /// The daemon hangs.
    #[error("ternd does not answer: it has said nothing for {} s", within.as_secs_f64())]
    Silent {
        /// How long was waited.
        within: Duration,
        /// The daemon's log.
        log: PathBuf,
    },
    /// Message that cannot be read.
    #[error("ternd's answer cannot be read")]
    Codec(#[from] ctl::codec::CodecError),
    /// The daemon, or another node, said no.
    #[error("{reason}")]
    Refused {
        /// Why.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// Identity of this node.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// No inviter could be reached.
    #[error("cannot join through {address}")]
    Join {
        /// Its address.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// `tern run`: not found.
    #[error("{program}: not found")]
    NotFound {
        /// As given.
        program: String,
    },
    /// `tern run`: not executable.
    #[error("{program}: cannot be executed")]
    NotExecutable {
        /// As given.
        program: String,
        /// Why not.
        source: io::Error,
    },
    /// `tern run --strict`: a program that begins at home.
    #[error("{program}: only its home can execute it (set-user-id, unreadable, or 32-bit), and --strict was given")]
    OnlyAtHome {
        /// Its path.
        program: String,
    },
    /// A local operation.
    #[error("cannot {what}")]
    Local {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    /// What the user may do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::NoDaemon { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some("may this user use tern here?".into()),
            Error::NoDaemon { .. } => Some(format!("is ternd running? (as root, after tern init or tern join TOKEN: {START})")),
            Error::Silent { log, .. } => Some(format!(
                "is ternd stopped, or this machine overloaded? `tern doctor` looks at this machine; ternd's log is {}; --timeout and TERN_TIMEOUT say how long to wait",
                log.display()
            )),
            Error::Refused { hint, .. } => hint.clone(),
            Error::Identity(identity::Error::Present { .. }) => Some(format!(
                "this machine is a node already: {START} starts its daemon, `tern invite` admits other machines, `tern leave` ends the membership"
            )),
            Error::Join { .. } => Some("is ternd running there, and its TCP port open? Invitations can be redeemed only where they were issued".into()),
            Error::Local { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some("try as root".into()),
            Error::Identity(identity::Error::File { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => Some("try as root".into()),
            _ => None,
        }
    }

    /// Exit status of the tool: 1; for `run` 127 (not found), 126 (not executable), 125 (everything else), as env(1) does.
    pub fn status(&self, run: bool) -> u8 {
        match self {
            Error::NotFound { .. } => 127,
            Error::NotExecutable { .. } => 126,
            _ if run => 125,
            _ => 1,
        }
    }

    /// Prints the whole chain and the hint.
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
