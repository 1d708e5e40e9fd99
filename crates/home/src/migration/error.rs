//! Why a process was not moved.

use crate::describe::picture::stays_with;
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
    /// The room refused.
    #[error("the room: {0}")]
    Room(String),
    /// The room refused for what was so at that moment: a later try may succeed.
    #[error("the room: {0}")]
    Retryable(String),
    /// The room is gone or does not answer.
    #[error("the room does not answer: {0}")]
    Silent(String),
    /// The process is being moved already.
    #[error("it is being moved already")]
    Moving,
    /// The room has not ended the former move: its next messages may belong to that.
    #[error("the room has not put an end to its last move yet: try again later")]
    Unsettled,
    /// Another process came to share an open file of it meanwhile: it is prepared anew.
    #[error("what it shares with others changes all the time: try again later")]
    Changed,
    /// The user has called the move off.
    #[error("it was called off: it runs where it was")]
    CalledOff,
    /// The process is not in this room.
    #[error("it is not away in this room")]
    NotAway,
    /// The room cannot track writes to the memory of the process.
    #[error("its memory cannot be sent ahead: {0}")]
    NotAhead(String),
    /// The process was given to another steward, and may have ended.
    #[error("it was on its way to another room, and may have ended: {0}")]
    Lost(String),
    /// A defect in this program.
    #[error("moving it failed unexpectedly (the log says where)")]
    Unexpected,
}

impl MoveError {
    /// Tells whether a later try may succeed: something happened at the wrong moment, such as the
    /// close of a file that was being looked at.
    pub fn is_retryable(&self) -> bool {
        match self {
            MoveError::Changed | MoveError::Retryable(_) => true,
            MoveError::Body(e) => e.is_retryable(),
            _ => false,
        }
    }

    /// Tells whether a later try may succeed, also because the session that stands in the way will
    /// end.
    pub fn is_momentary(&self) -> bool {
        self.is_retryable() || matches!(self, MoveError::Moving | MoveError::Unsettled)
    }

    /// Writes the error as the room is told it.
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

/// Says that the whole group stays because of one process.
pub fn stays_for(pid: i32, e: MoveError) -> MoveError {
    let why = stays_with(pid, &e);
    match e {
        e @ (MoveError::Silent(_) | MoveError::CalledOff) => e,
        e if e.is_momentary() => BodyError::Retryable(why).into(),
        _ => BodyError::NotMigratable(why).into(),
    }
}
