//! The connection to the local daemon.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use control_protocol::codec::encode;
use control_protocol::paths::{daemon_socket, log_dir};
use control_protocol::tool::{Answer, Assembly, PACKET_BYTES, REQUEST_BYTES, Request};

use crate::{Dirs, Error};

/// Sends a request and waits for the answer.
///
/// # Errors
/// The daemon refuses, or does not answer.
pub(crate) fn ask(dirs: &Dirs, request: &Request) -> Result<Answer, Error> {
    receive(dirs, &begin(dirs, request, &[])?)
}

/// Sends a request with descriptors that may have to wait for its turn. If ternd is silent for
/// [`Dirs::timeout`], it is asked whether it is alive. Also gives the socket, which after
/// [`Answer::Placing`] is a deputy's.
pub(crate) fn ask_in_turn(
    dirs: &Dirs,
    request: &Request,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(Answer, OwnedFd), Error> {
    let socket = begin(dirs, request, descriptors)?;
    let answer = loop {
        match receive(dirs, &socket) {
            Err(silent @ Error::Silent { .. }) => drop(ask(dirs, &Request::Status).map_err(|_| silent)?),
            answer => break answer?,
        }
    };
    packet::set_timeout(&socket, None).map_err(|source| Error::NoAnswer { source })?;
    Ok((answer, socket))
}

/// Sends a request, and gives the socket on which answers arrive ([`receive`]). Waiting on it is
/// bounded by [`Dirs::timeout`].
pub(crate) fn begin(dirs: &Dirs, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<OwnedFd, Error> {
    let path = daemon_socket(&dirs.run_dir);
    let socket = packet::connect_within(&path, dirs.timeout).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => silent(dirs, source),
        _ => Error::NoDaemon { path, source },
    })?;
    packet::send(&socket, &encode(request, REQUEST_BYTES)?, descriptors).map_err(|e| silent(dirs, e))?;
    Ok(socket)
}

/// Turns a failure to receive into an error: ternd is silent, or something else went wrong.
pub(crate) fn silent(dirs: &Dirs, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Error::Silent { within: dirs.timeout, log: log_dir(&dirs.run_dir).join("tern.log") }
        }
        _ => Error::NoAnswer { source },
    }
}

/// Waits for an answer.
///
/// # Errors
/// The daemon refuses, or does not answer.
pub(crate) fn receive(dirs: &Dirs, socket: &OwnedFd) -> Result<Answer, Error> {
    let mut assembly = Assembly::default();
    loop {
        let packet = packet::receive(socket, PACKET_BYTES).map_err(|e| silent(dirs, e))?;
        if packet.bytes.is_empty() {
            return Err(silent(dirs, io::ErrorKind::UnexpectedEof.into()));
        }
        match assembly.take(&packet.bytes)? {
            Some(Answer::Failed { reason, hint, .. }) => return Err(Error::Refused { reason, hint }),
            Some(answer) => return Ok(answer),
            None => {}
        }
    }
}

/// Gives the error for an answer of another kind than the request.
pub(crate) fn unexpected() -> Error {
    Error::Refused {
        reason: "ternd gave an unexpected answer".into(),
        hint: Some("are tern and ternd of the same version? (tern status)".into()),
    }
}
