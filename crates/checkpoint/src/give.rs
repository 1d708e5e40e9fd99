//! Passing open files of the caller to a stopped process.

use crate::error::BodyError;
use os::inject::Inside;
use os::pidfd::PidFd;
use std::os::fd::BorrowedFd;

/// Bytes of `struct msghdr` and `struct cmsghdr`; the latter is followed by descriptors.
const MESSAGE_BYTES: usize = 56;
const CONTROL_HEAD_BYTES: usize = 16;
const FD_BYTES: usize = 4;

/// Puts open files into the process of `pidfd`, through a socket that this creates there. Gives
/// their numbers there; they are close-on-exec.
pub fn give(inside: &mut Inside, pidfd: &PidFd, files: &[BorrowedFd<'_>]) -> Result<Vec<i32>, BodyError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let mut batch = inside.batch();
    let pair = batch.space(8);
    let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
    batch.must("making a socket for open files", libc::SYS_socketpair, [libc::AF_UNIX as u64, kind, 0, pair, 0, 0]);
    inside.run(&batch)?;
    let both = inside.memory().word(pair)?;
    let (ours, theirs) = (both as i32, (both >> 32) as i32);
    let given = pidfd.get_fd(ours).map_err(BodyError::from).and_then(|socket| {
        let mut given = Vec::new();
        for part in files.chunks(packet::DESCRIPTORS_MAX) {
            packet::send(&socket, &[0], part).map_err(|e| os::Error::new("sending open files to the process", e))?;
            given.extend(take(inside, theirs, part.len())?);
        }
        Ok(given)
    });
    let mut batch = inside.batch();
    for fd in [ours, theirs] {
        batch.may(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
    }
    inside.run(&batch)?;
    given
}

fn take(inside: &mut Inside, socket: i32, count: usize) -> Result<Vec<i32>, BodyError> {
    let mut batch = inside.batch();
    let (byte, control) = (batch.space(8), batch.space(CONTROL_HEAD_BYTES + (FD_BYTES * count).next_multiple_of(8)));
    let words = |list: &[u64]| list.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>();
    let vector = batch.put(&words(&[byte, 1]));
    let control_bytes = CONTROL_HEAD_BYTES + FD_BYTES * count;
    // The words are: name and its length, data, control, flags.
    let message = batch.put(&words(&[0, 0, vector, 1, control, control_bytes as u64, 0])[..MESSAGE_BYTES]);
    let flags = libc::MSG_CMSG_CLOEXEC as u64;
    batch.must("taking open files", libc::SYS_recvmsg, [socket as u64, message, flags, 0, 0, 0]);
    inside.run(&batch)?;
    let mut bytes = vec![0; control_bytes];
    inside.memory().read(control, &mut bytes)?;
    let numbers = bytes[CONTROL_HEAD_BYTES..].chunks_exact(FD_BYTES);
    Ok(numbers.map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}
