//! The process behind a request: proven by the packet that it sent, not by the socket that somebody
//! connected.

use std::os::fd::BorrowedFd;

use control_protocol::steward::Caller;
use os::pidfd::PidFd;
use os::process_identity::{IdentityError, ProcessIdentity};
use packet::{Peer, Sender};

/// Why a request is not served.
#[derive(Debug, thiserror::Error)]
pub enum CallerError {
    /// The kernel did not name the sender.
    #[error("the kernel does not say which process sent the request")]
    Unnamed,
    /// Another process than the one that connected, or one with other rights, uses the socket.
    #[error("process {sender} sent the request on a socket that process {connected} connected, or as another user")]
    NotConnected {
        /// Process that sent it.
        sender: i32,
        /// Process that connected.
        connected: i32,
    },
    /// The sender cannot be held.
    #[error("the process that sent the request has ended")]
    Ended(#[source] os::Error),
    /// The sender has other rights than its user.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// The process that sent a request, held by its pidfd, with the rights of its user alone.
pub(crate) struct ProvenCaller {
    identity: ProcessIdentity,
    pidfd: PidFd,
}

/// Checks that a request was sent by the process that connected, with the rights that it had then.
/// So neither can a user's request come from root (a set-user-ID program that writes to a socket
/// given to it), nor root's from a user.
///
/// # Errors
/// They differ, or the sender is not in this PID namespace.
pub(crate) fn check_sender(sender: Option<&Sender>, connected: Peer) -> Result<(), CallerError> {
    let sender = sender.ok_or(CallerError::Unnamed)?;
    match sender.pid == connected.pid && sender.uid == connected.uid {
        true => Ok(()),
        false => Err(CallerError::NotConnected { sender: sender.pid, connected: connected.pid }),
    }
}

impl ProvenCaller {
    /// Holds the sender, and checks that it still has the ids that it sent its packet with, and no
    /// right beyond them.
    ///
    /// # Errors
    /// The sender has ended, or executed a program that gives rights.
    pub(crate) fn prove(sender: Sender) -> Result<ProvenCaller, CallerError> {
        // Without SCM_PIDFD the number may be a later process' by now: one of the same user then,
        // who could trace it as well.
        let pidfd = match sender.pidfd {
            Some(pidfd) => PidFd::from(pidfd),
            None => PidFd::open(sender.pid).map_err(CallerError::Ended)?,
        };
        let identity = ProcessIdentity::of(sender.pid).map_err(CallerError::Ended)?;
        // The process lives, so everything read under its number belongs to it.
        pidfd.kill(0).map_err(CallerError::Ended)?;
        identity.is_of_sender(sender.uid, sender.gid)?;
        Ok(ProvenCaller { identity, pidfd })
    }

    /// PID of the process.
    pub(crate) fn pid(&self) -> i32 {
        self.identity.pid
    }

    /// As a steward is told of it.
    pub(crate) fn named(&self) -> Caller {
        let ProcessIdentity { pid, began, uid, gid, .. } = self.identity;
        Caller { pid, began, uid: uid[0], gid: gid[0] }
    }

    /// For the steward.
    pub(crate) fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}
