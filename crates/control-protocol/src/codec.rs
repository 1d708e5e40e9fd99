//! How messages become bytes: a version byte, then postcard. Enums are only ever appended to.

use serde::{Serialize, de::DeserializeOwned};

/// Version of the messages in this crate. Raised only when an old reader could not skip what it
/// does not know.
pub const VERSION: u8 = 15;

/// Why bytes are no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The message is empty.
    #[error("empty message")]
    Empty,
    /// The message has another version.
    #[error("message of version {got}, this side speaks {VERSION}: run the same tern on both sides")]
    Version {
        /// The other side's.
        got: u8,
    },
    /// Not a message of this type, or bytes left over.
    #[error("malformed message: {why}")]
    Malformed {
        /// The decoder's word.
        why: String,
    },
    /// Too large to be sent or taken.
    #[error("message of {bytes} bytes, at most {limit} are allowed")]
    TooLarge {
        /// The size of the message.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
}

/// Encodes a message.
///
/// # Errors
/// [`CodecError::TooLarge`] beyond `limit` bytes.
pub fn encode<T: Serialize>(message: &T, limit: usize) -> Result<Vec<u8>, CodecError> {
    let bytes =
        postcard::to_extend(message, vec![VERSION]).map_err(|e| CodecError::Malformed { why: e.to_string() })?;
    if bytes.len() > limit { Err(CodecError::TooLarge { bytes: bytes.len(), limit }) } else { Ok(bytes) }
}

/// Bytes as a message. All of them must be used.
///
/// # Errors
/// Every [`CodecError`] but `TooLarge`.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    let (&version, body) = bytes.split_first().ok_or(CodecError::Empty)?;
    if version != VERSION {
        return Err(CodecError::Version { got: version });
    }
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(CodecError::Malformed { why: format!("{} bytes left over", rest.len()) }),
        Err(e) => Err(CodecError::Malformed { why: e.to_string() }),
    }
}
