//! Limits of processes (getrlimit(2)).
//!
//! The deputy has the same limits as the program: processes are made at home, and so are the
//! descriptors that stay there, and the program may go there. Limits of the address space are the
//! body's alone, for the deputy does not fill that until then. What a user has of processes home
//! alone counts, and whether a process is held to its limit of locked memory depends on a
//! capability that no body has (CAP_IPC_LOCK): these two limits home keeps, says and changes.

use crate::calls::served::Asked;
use crate::sandbox::guest_memory;
use crate::state::calls::after::{After, Limited};
use os::process::Limit;

/// A limit as in memory, bytes: soft, hard.
const LIMIT_BYTES: usize = 16;

/// Serves a call about limits.
pub fn serve(asked: Asked) {
    const OF_MEMORY: [u32; 2] = [libc::RLIMIT_AS, libc::RLIMIT_DATA];
    const OF_HOME: [u32; 2] = [libc::RLIMIT_NPROC, libc::RLIMIT_MEMLOCK];
    let [first, second, third, ..] = asked.args;
    let (target, which, new) = match asked.nr as i64 {
        libc::SYS_prlimit64 => (first as i32, second as u32, third),
        libc::SYS_setrlimit => (0, first as u32, second),
        _ => (0, first as u32, 0),
    };
    let is_own = target == 0 || target == asked.who.pid;
    let target = if is_own { asked.who.pid } else { target };
    match is_own {
        true if OF_MEMORY.contains(&which) => asked.here(),
        true if !OF_HOME.contains(&which) => asked.forward_and_then(|_| After::Here),
        _ => {
            let limit = read(&asked, new);
            let limited = limit.map(|limit| Limited { target, which, limit });
            asked.forward_and_then(|back| limited.map_or(After::Write(back.clone()), |of| After::Limited(of, back)));
        }
    }
}

/// What a call sets.
fn read(asked: &Asked, at: u64) -> Option<Limit> {
    let mut bytes = [0; LIMIT_BYTES];
    guest_memory::read(asked.waiting.host_tid.0, at, &mut bytes).ok().filter(|()| at != 0)?;
    let (soft, hard) = bytes.split_at(LIMIT_BYTES / 2);
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    Some(Limit { soft: number(soft), hard: number(hard) })
}
