//! Calls on a descriptor that may be a stand-in: then they are the deputy's, on its own descriptor.

use super::Asked;
use crate::warden::marshal::Back;
use wire::message::Call;

impl Asked {
    /// The home's number of a stand-in that argument `i` names.
    fn home_fd(&self, i: usize) -> Option<i32> {
        let standin = self.room.standin_of(self.waiting.host_tid, self.args[i] as i32)?;
        self.room.guests().get(self.who.pid)?.home_fd(standin)
    }

    fn plain(&self, args: [u64; 6]) -> Call {
        Call { nr: self.nr, args, pointers: 0, data: Vec::new(), out_offset: 0, out_bytes: 0, out_per_result: 0 }
    }
}

/// fstat, newfstatat and statx of a descriptor: the guest shall see what its home has there.
pub fn stat(asked: Asked) {
    let Some(fd) = asked.home_fd(0) else { return asked.here() };
    let (pointer, bytes) = match asked.nr as i64 {
        libc::SYS_fstat => (1, 144),
        libc::SYS_newfstatat => (2, 144),
        libc::SYS_statx => (4, 256),
        _ => return asked.here(),
    };
    let mut args = asked.args;
    args[0] = fd as u64;
    let to = args[pointer];
    // Data: the struct, then an empty path.
    args[pointer] = 0;
    let mut pointers = 1 << pointer;
    let mut data = vec![0; bytes + 8];
    if asked.nr as i64 != libc::SYS_fstat {
        let mut path = [0];
        let empty =
            args[1] == 0 || os::vm::read(asked.waiting.host_tid.0, args[1], &mut path).is_ok_and(|()| path[0] == 0);
        if !empty {
            // A path from a stand-in: those are no directories.
            return asked.value(-i64::from(libc::ENOTDIR));
        }
        args[1] = bytes as u64;
        pointers |= 0b10;
        data[bytes..].fill(0);
    }
    let call = Call { pointers, data, out_bytes: bytes as u32, ..asked.plain(args) };
    asked.ask(call, vec![Back { from: 0, bytes, to }], false);
}

/// lseek: the offset is the open file's at home.
pub fn seek(asked: Asked) {
    let Some(fd) = asked.home_fd(0) else { return asked.here() };
    let mut args = asked.args;
    args[0] = fd as u64;
    let call = asked.plain(args);
    asked.ask(call, Vec::new(), false);
}

/// Copies inside the kernel: programs fall back to read and write when told that it cannot be done.
pub fn splice(asked: Asked) {
    let standin = (0..4).any(|i| asked.home_fd(i).is_some());
    if standin { asked.value(-i64::from(libc::EINVAL)) } else { asked.here() }
}

/// linux/fcntl.h
const F_SETSIG: i32 = 10;
const F_GETSIG: i32 = 11;

/// fcntl: flags of the open file are set at home and here; owners, leases and pipe sizes are home's.
pub fn fcntl(asked: Asked) {
    let Some(fd) = asked.home_fd(0) else { return asked.here() };
    let mut args = asked.args;
    args[0] = fd as u64;
    let call = asked.plain(args);
    match asked.args[1] as i32 {
        libc::F_SETFL => asked.ask(call, Vec::new(), true),
        libc::F_GETPIPE_SZ | libc::F_SETPIPE_SZ | libc::F_GETOWN | libc::F_SETOWN | F_SETSIG | F_GETSIG => {
            asked.ask(call, Vec::new(), false)
        }
        _ => asked.refuse_for(libc::EINVAL, "this fcntl of a descriptor that stays home is not served yet"),
    }
}
