//! Why a process cannot be taken apart or put together.

use os::ptrace::TraceError;
use thiserror::Error;

/// Why not.
#[derive(Debug, Error)]
pub enum BodyError {
    /// It has state that cannot be carried, in words.
    #[error("{0}")]
    Stays(String),
    /// It ended meanwhile.
    #[error("it ended meanwhile")]
    Gone,
    /// The kernel refused something.
    #[error(transparent)]
    Os(#[from] os::Error),
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
