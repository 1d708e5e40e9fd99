//! The local daemon's socket.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use ctl::codec::encode;
use ctl::paths::daemon_socket;
use ctl::tool::{Answer, Assembly, PACKET_BYTES, REQUEST_BYTES, Request};

use crate::Error;

/// Bound on an answer: a placement may have to wait for a room (10 s) on each of several nodes.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Asks, and takes the answer; a refusal is an error.
pub(crate) fn ask(run_dir: &Path, request: &Request) -> Result<Answer, Error> {
    ask_with(run_dir, request, &[]).map(|(answer, _)| answer)
}

/// Asks with descriptors; also gives the socket, which after [`Answer::Placing`] is a deputy's.
pub(crate) fn ask_with(
    run_dir: &Path,
    request: &Request,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(Answer, OwnedFd), Error> {
    let silent = |source| Error::NoAnswer { source };
    let socket = begin(run_dir, request, descriptors)?;
    let answer = receive(&socket)?;
    packet::set_timeout(&socket, None).map_err(silent)?;
    Ok((answer, socket))
}

/// Asks; answers come on the socket ([`receive`]).
pub(crate) fn begin(run_dir: &Path, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<OwnedFd, Error> {
    let path = daemon_socket(run_dir);
    let socket = packet::connect(&path).map_err(|source| Error::NoDaemon { path, source })?;
    let silent = |source| Error::NoAnswer { source };
    packet::set_timeout(&socket, Some(ANSWER_WITHIN)).map_err(silent)?;
    packet::send(&socket, &encode(request, REQUEST_BYTES)?, descriptors).map_err(silent)?;
    Ok(socket)
}

/// Waits for an answer; a refusal is an error.
pub(crate) fn receive(socket: &OwnedFd) -> Result<Answer, Error> {
    let silent = |source| Error::NoAnswer { source };
    let mut assembly = Assembly::default();
    loop {
        let packet = packet::receive(socket, PACKET_BYTES).map_err(silent)?;
        if packet.bytes.is_empty() {
            return Err(silent(io::ErrorKind::UnexpectedEof.into()));
        }
        match assembly.take(&packet.bytes)? {
            Some(Answer::Failed { reason, hint }) => return Err(Error::Refused { reason, hint }),
            Some(answer) => return Ok(answer),
            None => {}
        }
    }
}

/// The daemon answered something else than was asked.
pub(crate) fn unexpected() -> Error {
    Error::Refused {
        reason: "ternd gave an unexpected answer".into(),
        hint: Some("are tern and ternd of the same version? (tern status)".into()),
    }
}
