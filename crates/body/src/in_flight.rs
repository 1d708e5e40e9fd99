//! Reads that are under way while a process is watched. The kernel may have found the pages of their buffer already, and writes into them later by a mapping of its own:
//! direct I/O, and every read from a file system like the stand-ins' (fuse_get_user_pages in fs/fuse/file.c). A page that is protected in between does not tell.

use crate::error::{BodyError, stays};
use crate::pages::PAGE;
use os::waiting::Call;
use strategy::Ranges;

/// UIO_MAXIOV
const VECTORS_MAX: u64 = 1024;
/// What is read from these is copied as if the thread had written it.
const COPIED: [&str; 4] = ["pipe:[", "socket:[", "anon_inode:", "/dev/pts/"];

/// The pages, start and end, ascending, into which reads that the threads of process `pid` had begun before now may still come unseen.
pub fn buffers(pid: i32) -> Result<Vec<(u64, u64)>, BodyError> {
    let seen = os::waiting::look(&os::process::threads(pid)?);
    if !seen.unseen.is_empty() {
        return stays("its threads get no processor, so what they read cannot be known: try --how stop");
    }
    let calls = seen.waiting.iter().filter_map(|(_, line)| Call::read(line));
    let found: Ranges = calls.flat_map(|call| of_call(pid, call)).collect();
    Ok(found.iter().collect())
}

fn of_call(pid: i32, call: Call) -> Vec<(u64, u64)> {
    let [fd, at, bytes, ..] = call.args;
    let buffers = match call.number {
        libc::SYS_read | libc::SYS_pread64 => vec![(at, bytes)],
        libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => vectors(pid, at, bytes),
        _ => return Vec::new(),
    };
    let name = os::process::link(pid, &format!("fd/{}", fd as i32)).unwrap_or_default();
    if COPIED.iter().any(|kind| name.to_string_lossy().starts_with(kind)) {
        return Vec::new();
    }
    buffers.into_iter().filter_map(whole_pages).collect()
}

/// The buffers that a `struct iovec` array names (readv(2)).
fn vectors(pid: i32, at: u64, count: u64) -> Vec<(u64, u64)> {
    let mut bytes = vec![0; 16 * count.min(VECTORS_MAX) as usize];
    // Who can no longer be read has ended, and is not moved.
    if os::vm::read(pid, at, &mut bytes).is_err() {
        return Vec::new();
    }
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    bytes.chunks_exact(16).map(|vector| (word(&vector[..8]), word(&vector[8..]))).collect()
}

fn whole_pages((at, bytes): (u64, u64)) -> Option<(u64, u64)> {
    let end = at.checked_add(bytes)?.checked_next_multiple_of(PAGE as u64)?;
    (bytes > 0).then_some((at - at % PAGE as u64, end))
}
