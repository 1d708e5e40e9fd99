//! Why a deputy cannot take its program's state back.

use checkpoint::BodyError;
use thiserror::Error;

/// Why a deputy cannot take its program's state back.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// The process cannot be put together at home.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The room sent what does not fit the image.
    #[error("the room: {0}")]
    Protocol(String),
}
