//! Why a process was not moved.

use crate::restore::error::RestoreError;
use checkpoint::BodyError;
use room_protocol::Refusal;
use thiserror::Error;

/// Why a process was not moved.
#[derive(Debug, Error)]
pub enum MoveError {
    /// The process cannot leave, or cannot be put together there.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The room said no.
    #[error("the room: {0}")]
    Room(String),
    /// It said no for what was so at that moment.
    #[error("the room: {0}")]
    Retryable(String),
    /// The room is gone or does not answer.
    #[error("the room does not answer: {0}")]
    Silent(String),
    /// It is being moved already.
    #[error("it is being moved already")]
    Moving,
    /// What the room says next may belong to the former move.
    #[error("the room has not put an end to its last move yet: try again later")]
    Unsettled,
    /// Another process came to share an open file of it meanwhile: it is prepared anew.
    #[error("what it shares with others changes all the time: try again later")]
    Changed,
    /// Somebody wants it so.
    #[error("it was called off: it runs where it was")]
    CalledOff,
    /// It is not there.
    #[error("it is not away in this room")]
    NotAway,
    /// Who writes what of its memory cannot be told there.
    #[error("its memory cannot be sent ahead: {0}")]
    NotAhead(String),
    /// It was given away.
    #[error("it was on its way to another room, and may have ended: {0}")]
    Lost(String),
    /// A fault of the program's.
    #[error("moving it failed unexpectedly (the log says where)")]
    Unexpected,
}

impl MoveError {
    /// Something happened at the wrong moment, such as closing what was being looked at: soon it
    /// does not.
    pub fn is_retryable(&self) -> bool {
        match self {
            MoveError::Changed | MoveError::Retryable(_) => true,
            MoveError::Body(e) => e.is_retryable(),
            _ => false,
        }
    }

    /// Nor will what it is part of now last.
    pub fn is_momentary(&self) -> bool {
        self.is_retryable() || matches!(self, MoveError::Moving | MoveError::Unsettled)
    }

    /// As the room is told it.
    pub fn refusal(&self) -> Refusal {
        Refusal { why: self.to_string(), retryable: self.is_retryable() }
    }
}

impl From<Refusal> for MoveError {
    fn from(Refusal { why, retryable }: Refusal) -> MoveError {
        if retryable { MoveError::Retryable(why) } else { MoveError::Room(why) }
    }
}

impl From<RestoreError> for MoveError {
    fn from(e: RestoreError) -> MoveError {
        match e {
            RestoreError::Body(e) => MoveError::Body(e),
            RestoreError::Protocol(why) => MoveError::Room(why),
        }
    }
}

impl From<os::Error> for MoveError {
    fn from(e: os::Error) -> MoveError {
        MoveError::Body(e.into())
    }
}
