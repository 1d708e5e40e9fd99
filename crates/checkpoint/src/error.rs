//! The error of capturing and restoring processes.

use os::ptrace::TraceError;
use thiserror::Error;

/// The error of capturing or restoring a process.
#[derive(Debug, Error)]
pub enum BodyError {
    /// The process has state that cannot move; the text names it.
    #[error("{0}")]
    NotMigratable(String),
    /// The process, or another one that shares something with it, did something at the wrong
    /// moment; the text says what. A later attempt may succeed.
    #[error("{0}")]
    Retryable(String),
    /// The process shares memory with others, or memory that others may open, and can move only
    /// together with them; the text says with which.
    #[error("{0}")]
    SharesMemory(String),
    /// The process ended meanwhile.
    #[error("it ended meanwhile")]
    Exited,
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] os::Error),
}

impl BodyError {
    /// Tells whether a later attempt may succeed: something was closed or made during the attempt.
    pub fn is_retryable(&self) -> bool {
        match self {
            BodyError::Retryable(_) => true,
            BodyError::Os(e) => e.errno() == libc::ENOENT,
            BodyError::NotMigratable(_) | BodyError::SharesMemory(_) | BodyError::Exited => false,
        }
    }

    /// Makes the refusal temporary, because it was found while the process ran. The process may
    /// have been closing the object, or giving it to a child that has not executed its own program
    /// yet.
    pub fn seen_running(self) -> BodyError {
        match self {
            BodyError::NotMigratable(why) => BodyError::Retryable(why),
            other => other,
        }
    }
}

impl From<TraceError> for BodyError {
    fn from(e: TraceError) -> BodyError {
        match e {
            TraceError::Gone => BodyError::Exited,
            TraceError::Failed(e) => BodyError::Os(e),
        }
    }
}

/// Refuses to move a process, for this reason.
pub fn stays<T>(why: impl Into<String>) -> Result<T, BodyError> {
    Err(BodyError::NotMigratable(why.into()))
}
