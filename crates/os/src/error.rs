//! What was tried, and why the kernel refused.

use std::io;
use thiserror::Error;

/// A call that failed.
#[derive(Debug, Error)]
#[error("{doing}: {source}")]
pub struct Error {
    /// What was tried, on what.
    pub doing: String,
    /// The kernel's answer.
    pub source: io::Error,
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The last call of this thread failed.
    pub fn last(doing: impl Into<String>) -> Error {
        Error { doing: doing.into(), source: io::Error::last_os_error() }
    }

    /// `doing` failed for `source`.
    pub fn new(doing: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error { doing: doing.into(), source: source.into() }
    }

    /// Gives the error number, 0 if there is none.
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }
}

/// Turns -1 into an error that says what was tried.
pub(crate) fn check<T: PartialOrd + Default + Copy>(result: T, doing: impl FnOnce() -> String) -> Result<T> {
    if result < T::default() { Err(Error::last(doing())) } else { Ok(result) }
}
