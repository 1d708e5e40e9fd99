//! Requests to the daemon of this machine.

use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use control_protocol::codec::encode;
use control_protocol::paths::{RUN_DIR, RUN_ENV, daemon_socket};
use control_protocol::tool::{Answer, Assembly, PACKET_BYTES, REQUEST_BYTES, Request};

use crate::errors::{Errno, Outcome};

/// Asks, and waits for the answer. The socket is a deputy's after [`Answer::Placing`].
pub fn ask(request: &Request, descriptors: &[BorrowedFd<'_>]) -> Outcome<(Answer, OwnedFd)> {
    let socket = packet::connect(&daemon_socket(&run_dir()))?;
    // A room may take long to make, and a move; and a deputy waits on this socket for ever.
    packet::set_timeout(&socket, None)?;
    let bytes = encode(request, REQUEST_BYTES).map_err(|_| Errno(libc::E2BIG))?;
    packet::send(&socket, &bytes, descriptors)?;
    let mut assembly = Assembly::default();
    loop {
        let packet = packet::receive(&socket, PACKET_BYTES)?;
        if packet.bytes.is_empty() {
            return Err(Errno(libc::ECONNRESET));
        }
        match assembly.take(&packet.bytes).map_err(|_| Errno(libc::EPROTO))? {
            Some(Answer::Failed { errno, .. }) => return Err(Errno(errno)),
            // A move says how far it is; its end comes, too.
            Some(Answer::Progress(_)) | None => {}
            Some(answer) => return Ok((answer, socket)),
        }
    }
}

/// The directory of the daemon's socket.
fn run_dir() -> PathBuf {
    environment(RUN_ENV).map_or_else(|| Path::new(RUN_DIR).to_owned(), PathBuf::from)
}

/// Reads a variable of the environment, which a program that gives rights does not believe
/// (secure_getenv(3)).
pub fn environment(name: &str) -> Option<OsString> {
    let trusted = rustix::process::getuid() == rustix::process::geteuid()
        && rustix::process::getgid() == rustix::process::getegid();
    std::env::var_os(name).filter(|_| trusted)
}
