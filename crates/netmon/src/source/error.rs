//! Why a source cannot be read.

use std::io;

/// A source that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {source}")]
pub struct Error {
    /// The step that failed, a verb with its object.
    pub doing: String,
    /// The system's error.
    pub source: io::Error,
}

impl Error {
    /// Makes an error of what was tried.
    pub fn new(doing: impl Into<String>, source: impl Into<io::Error>) -> Error {
        Error { doing: doing.into(), source: source.into() }
    }

    /// Tells whether the object is not there (any more).
    pub fn is_absent(&self) -> bool {
        use rustix::io::Errno;
        let absent = [Errno::NOENT, Errno::NODEV, Errno::SRCH, Errno::NXIO];
        self.source.kind() == io::ErrorKind::NotFound
            || absent.iter().any(|errno| self.source.raw_os_error() == Some(errno.raw_os_error()))
    }

    /// Tells whether the user may not look.
    pub fn is_denied(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }
}

impl From<os::Error> for Error {
    fn from(error: os::Error) -> Error {
        Error { doing: error.doing, source: error.source }
    }
}

/// Result of reading a source.
pub type Result<T> = std::result::Result<T, Error>;
