//! The error with which a server refuses to start.

use std::io;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A file system cannot be opened for export.
    #[error("cannot export {path}: {what}: {source}")]
    Export {
        /// Mount point of the file system.
        path: std::path::PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Something else that the server needs failed.
    #[error("cannot serve home files: {what}: {source}")]
    Setup {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
