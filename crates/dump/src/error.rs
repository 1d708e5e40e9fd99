//! Why a process was not dumped or undumped.

use checkpoint::BodyError;
use image::dump::DumpError;
use os::ptrace::TraceError;
use thiserror::Error;

/// Why a process was not dumped or undumped.
#[derive(Debug, Error)]
pub enum DumpFailed {
    /// The process has something that no dump holds, or this machine lacks something; the text
    /// names it.
    #[error("{0}")]
    Refused(String),
    /// Taking apart or putting together failed.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The stream could not be read or written, or is broken.
    #[error(transparent)]
    Stream(#[from] DumpError),
    /// A call failed.
    #[error(transparent)]
    Os(#[from] os::Error),
}

impl From<TraceError> for DumpFailed {
    fn from(e: TraceError) -> DumpFailed {
        DumpFailed::Body(e.into())
    }
}

impl DumpFailed {
    /// Gives the number of errno(3) that says this best to a C program.
    pub fn errno(&self) -> i32 {
        match self {
            DumpFailed::Refused(_) => libc::EOPNOTSUPP,
            DumpFailed::Body(BodyError::NotMigratable(_) | BodyError::SharesMemory(_)) => libc::EOPNOTSUPP,
            DumpFailed::Body(BodyError::Retryable(_)) => libc::EAGAIN,
            DumpFailed::Body(BodyError::Exited) => libc::ESRCH,
            DumpFailed::Body(BodyError::Os(e)) | DumpFailed::Os(e) => e.errno().max(1),
            DumpFailed::Stream(DumpError::Io(e)) => e.raw_os_error().unwrap_or(libc::EIO),
            DumpFailed::Stream(_) => libc::ENOEXEC,
        }
    }
}

/// Refuses, for this reason.
pub fn refuse<T>(why: impl Into<String>) -> Result<T, DumpFailed> {
    Err(DumpFailed::Refused(why.into()))
}
