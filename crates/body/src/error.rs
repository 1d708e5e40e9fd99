//! Why a process cannot be taken apart or put together.

use os::ptrace::TraceError;
use thiserror::Error;

/// Why not.
#[derive(Debug, Error)]
pub enum BodyError {
    /// It has state that cannot be carried, in words.
    #[error("{0}")]
    Stays(String),
    /// It, or another that has something in common with it, did something at the wrong moment: soon it does not. In words.
    #[error("{0}")]
    Fleeting(String),
    /// It ended meanwhile.
    #[error("it ended meanwhile")]
    Gone,
    /// The kernel refused something.
    #[error(transparent)]
    Os(#[from] os::Error),
}

impl BodyError {
    /// Soon it can be: something was closed, or made, while it was looked at.
    pub fn is_fleeting(&self) -> bool {
        match self {
            BodyError::Fleeting(_) => true,
            BodyError::Os(e) => e.errno() == libc::ENOENT,
            BodyError::Stays(_) | BodyError::Gone => false,
        }
    }

    /// It was seen while the process ran, which may have been closing it, or giving it to a child that has not begun its own program yet.
    pub fn seen_running(self) -> BodyError {
        match self {
            BodyError::Stays(why) => BodyError::Fleeting(why),
            other => other,
        }
    }
}

impl From<TraceError> for BodyError {
    fn from(e: TraceError) -> BodyError {
        match e {
            TraceError::Gone => BodyError::Gone,
            TraceError::Failed(e) => BodyError::Os(e),
        }
    }
}

/// It stays where it is, for this reason.
pub fn stays<T>(why: impl Into<String>) -> Result<T, BodyError> {
    Err(BodyError::Stays(why.into()))
}
