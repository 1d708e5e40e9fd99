//! Locks of files that stay home: they are the deputy's.

use crate::files::standins::{ask, asker, files};
use crate::state::files::standins::requests::StandinRequestKind;
use crate::state::shared::Shared;
use homefs::proto::{FileLock, LK_FLOCK, LkIn, Opcode, Request};
use room_protocol::message::Call;

/// Commands of fcntl(2) about locks that belong to the open file.
const OF_OPEN_FILES: [i32; 3] = [libc::F_OFD_GETLK, libc::F_OFD_SETLK, libc::F_OFD_SETLKW];

/// Has the deputy set a lock, or ask for one.
pub fn serve(room: &Shared, request: &Request<'_>, opcode: Opcode) -> Result<(), i32> {
    let arguments: LkIn = request.args().take().map_err(|_| libc::EPROTO)?;
    let asker = asker(room, request)?;
    let standin = Some(asker.standin);
    let (kind, waits) = (arguments.lk.kind as i32, opcode == Opcode::Setlkw);
    let call = if arguments.lk_flags & LK_FLOCK != 0 {
        let operation = match kind {
            libc::F_RDLCK => libc::LOCK_SH,
            libc::F_WRLCK => libc::LOCK_EX,
            _ => libc::LOCK_UN,
        };
        let operation = operation | if waits { 0 } else { libc::LOCK_NB };
        Call { standin, ..Call::new(libc::SYS_flock, [0, operation as u64, 0, 0, 0, 0]) }
    } else {
        // The kernel does not say whose the lock is to be: the process', or the open file's.
        let of_file =
            files::current_call(room, request).is_some_and(|(_, _, args)| OF_OPEN_FILES.contains(&(args[1] as i32)));
        let command = match (opcode, of_file) {
            (Opcode::Getlk, false) => libc::F_GETLK,
            (Opcode::Getlk, true) => libc::F_OFD_GETLK,
            (Opcode::Setlkw, false) => libc::F_SETLKW,
            (Opcode::Setlkw, true) => libc::F_OFD_SETLKW,
            (_, false) => libc::F_SETLK,
            (_, true) => libc::F_OFD_SETLK,
        };
        let data = flock_bytes(&arguments.lk);
        let out_bytes = data.len() as u32;
        let call = Call::new(libc::SYS_fcntl, [0, command as u64, 0, 0, 0, 0]);
        Call { standin, pointers: 0b100, data, out_bytes, ..call }
    };
    ask(room, &asker, request.header.unique, StandinRequestKind::Lock { asks: opcode == Opcode::Getlk }, call);
    Ok(())
}

/// `struct flock` (fcntl(2)): type, whence, start, length, process.
fn flock_bytes(lock: &FileLock) -> Vec<u8> {
    const FOR_EVER: u64 = i64::MAX as u64;
    let bytes = if lock.end >= FOR_EVER { 0 } else { (lock.end + 1).saturating_sub(lock.start) };
    let kind = u64::from(lock.kind & 0xffff);
    [kind, lock.start, bytes, 0].iter().flat_map(|w| w.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::files::standins::device::lock_of;

    #[test]
    fn ranges_there_and_back() {
        for (start, end) in [(0, i64::MAX as u64), (5, 5), (0, 99)] {
            let lock = FileLock { start, end, kind: 1, pid: 0 };
            let back = lock_of(&flock_bytes(&lock));
            assert_eq!((back.start, back.end, back.kind), (start, end, 1));
        }
    }
}
