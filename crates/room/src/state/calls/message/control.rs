//! Control messages (cmsg(3)): descriptors that are passed get the other side's numbers; all else
//! is the same on both.

use crate::sandbox::guest_memory;
use crate::state::calls::message::{CONTROL_BYTES_MAX, Piece, half, word};
use crate::state::files::standins::device::Device;
use os::ptrace::HostTid;
use room_protocol::message::StandinId;
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes of a `struct cmsghdr`: length, level, type.
const HEAD_BYTES: usize = 16;
/// Bytes of a descriptor's number.
pub const FD_BYTES: usize = 4;
/// The type of a control message (linux/socket.h).
const SCM_PIDFD: u32 = 4;

/// The messages: their type if they carry descriptors, and where these lie.
pub fn descriptors(control: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + HEAD_BYTES <= control.len() {
        let bytes = usize::try_from(word(control, at)).unwrap_or(usize::MAX);
        if bytes < HEAD_BYTES || bytes > control.len() - at {
            break;
        }
        let (level, kind) = (half(control, at + 8), half(control, at + 12));
        if level == libc::SOL_SOCKET as u32 && (kind == libc::SCM_RIGHTS as u32 || kind == SCM_PIDFD) {
            // A remainder shorter than a descriptor number is ignored.
            found.push(at + HEAD_BYTES..at + bytes - (bytes - HEAD_BYTES) % FD_BYTES);
        }
        at += bytes.next_multiple_of(8);
    }
    found
}

/// Numbers of the descriptors that came with these messages.
pub fn numbers(control: &[u8]) -> Vec<i32> {
    let all = descriptors(control).into_iter().flat_map(|range| range.step_by(FD_BYTES));
    all.map(|at| half(control, at) as i32).collect()
}

/// Why a descriptor cannot be passed from here: at home, where its file is opened when the process
/// comes, it can.
pub const OPENED_HERE: &str = "a descriptor of the room's own cannot be passed through a socket of the home";

/// Names the stand-ins among the descriptors that a guest passes on, in the control messages that
/// begin at `from`.
pub fn pass(
    standins: &Device,
    host: HostTid,
    data: &mut [u8],
    from: usize,
) -> Result<Vec<(u32, StandinId)>, (i32, &'static str)> {
    let mut passed = Vec::new();
    for range in descriptors(&data[from..]) {
        for at in range.step_by(FD_BYTES).map(|at| at + from) {
            let fd = half(data, at) as i32;
            if os::process::fd_info(host.0, fd).is_err() {
                return Err((libc::EBADF, ""));
            }
            let standin = standins.standin_of(host, fd).ok_or((libc::EOPNOTSUPP, OPENED_HERE))?;
            passed.push((at as u32, standin));
        }
    }
    Ok(passed)
}

/// The room's own among the descriptors that a guest passes on in these control messages.
pub fn opened_here(standins: &Device, host: HostTid, control: Piece) -> BTreeSet<i32> {
    let mut data = vec![0; usize::try_from(control.bytes).unwrap_or(0).min(CONTROL_BYTES_MAX)];
    if guest_memory::read(host.0, control.at, &mut data).is_err() {
        return BTreeSet::new();
    }
    let all = descriptors(&data).into_iter().flat_map(|range| range.step_by(FD_BYTES));
    all.map(|at| half(&data, at) as i32).filter(|fd| standins.standin_of(host, *fd).is_none()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: u32, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEAD_BYTES + body.len()) as u64).to_le_bytes().to_vec();
        bytes.extend(level.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn descriptors_are_found() {
        let mut control = message(1, 2, &[0; 12]);
        control.extend(message(1, 1, &[0; 12]));
        let found: Vec<(usize, usize)> = descriptors(&control).iter().map(|r| (r.start, r.end)).collect();
        assert_eq!(found, [(48, 60)]);
    }

    /// Failed before: a home that sent one byte more than descriptors have ended the room.
    #[test]
    fn a_part_of_a_descriptor_is_none() {
        for more in 0..FD_BYTES {
            let bytes = vec![0; 8 + more];
            let control = &message(1, 1, &bytes)[..HEAD_BYTES + bytes.len()];
            assert_eq!(descriptors(control).first(), Some(&(HEAD_BYTES..HEAD_BYTES + 8)), "{more} more");
        }
    }

    #[test]
    fn nonsense_is_passed_over() {
        assert!(descriptors(&[0; 40]).is_empty());
        assert!(descriptors(&[255; 40]).is_empty());
        assert!(descriptors(&message(1, 1, &[0; 12])[..20]).is_empty());
    }
}
