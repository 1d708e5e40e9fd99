//! Processes that ask to be placed.

use crate::deputy::homecoming::HomecomingPolicy;
use crate::deputy::proof::{DeputyProof, ProofError};
use control_protocol::steward::Caller;
use os::pidfd::PidFd;
use os::process_identity::{IdentityError, ProcessIdentity};

/// A process that asked to be placed: proven to be the one that the daemon heard.
#[derive(Debug)]
pub struct PlacementRequest {
    /// The handle of the process.
    pub pidfd: PidFd,
    /// Proves later that the process is still the same deputy.
    pub proof: DeputyProof,
    /// What becomes of it when it must go home.
    pub manner: HomecomingPolicy,
}

impl PlacementRequest {
    /// Of the process that this daemon's word is about.
    ///
    /// # Errors
    /// The process has ended, or has other rights than those of its user.
    pub fn prove(caller: Caller, pidfd: PidFd) -> Result<PlacementRequest, ProofError> {
        let pid = caller.pid;
        let unseen = |source| ProofError::Unseen { pid, source };
        let identity = ProcessIdentity::of(pid).map_err(unseen)?;
        // The process lives, so everything read under its number belongs to it.
        pidfd.kill(0).map_err(unseen)?;
        if identity.began != caller.began {
            return Err(IdentityError::Reused { pid }.into());
        }
        identity.is_of_sender(caller.uid, caller.gid)?;
        Ok(PlacementRequest { pidfd, proof: DeputyProof::of_coming(identity), manner: HomecomingPolicy::default() })
    }
}
