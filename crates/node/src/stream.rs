//! Messages over TLS: length (u32, little-endian), then the message. Bounded in size and time.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use control_protocol::codec::{CodecError, decode, encode};
use control_protocol::peer::MESSAGE_BYTES;

/// Why a message did not come or go.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Codec(#[from] CodecError),
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
}

/// Fails `future` after `bound`.
pub(crate) async fn within<T, E: Into<StreamError>>(
    bound: Duration,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, StreamError> {
    tokio::time::timeout(bound, future).await.map_err(|_| StreamError::Timeout(bound))?.map_err(Into::into)
}

pub(crate) async fn write_message<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &T,
) -> Result<(), StreamError> {
    let body = encode(message, MESSAGE_BYTES)?;
    let length =
        u32::try_from(body.len()).map_err(|_| CodecError::TooLarge { bytes: body.len(), limit: MESSAGE_BYTES })?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend_from_slice(&body);
    stream.write_all(&bytes).await?;
    stream.flush().await?;
    Ok(())
}

/// `None`: the other end has closed between messages.
pub(crate) async fn read_message<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<T>, StreamError> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e.into()),
    }
    let bytes = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if bytes > MESSAGE_BYTES {
        return Err(CodecError::TooLarge { bytes, limit: MESSAGE_BYTES }.into());
    }
    // Grows with what really comes: a claim of a megabyte alone costs nothing.
    let mut body = Vec::new();
    stream.take(bytes as u64).read_to_end(&mut body).await?;
    if body.len() < bytes {
        return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
    }
    Ok(Some(decode(&body)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use control_protocol::peer::PeerRequest;

    #[tokio::test]
    async fn messages_travel_and_lies_are_refused() {
        let (mut a, mut b) = tokio::io::duplex(1 << 10);
        write_message(&mut a, &PeerRequest::Clock).await.unwrap();
        assert_eq!(read_message(&mut b).await.unwrap(), Some(PeerRequest::Clock));
        a.write_all(&u32::MAX.to_le_bytes()).await.unwrap();
        assert!(matches!(
            read_message::<PeerRequest>(&mut b).await,
            Err(StreamError::Codec(CodecError::TooLarge { .. }))
        ));
        a.write_all(&[9, 0, 0, 0, 1, 2]).await.unwrap();
        drop(a);
        assert!(matches!(read_message::<PeerRequest>(&mut b).await, Err(StreamError::Io(_))));
        assert_eq!(read_message::<PeerRequest>(&mut b).await.unwrap(), None);
    }
}
