//! Reads that are under way while writes of a process are tracked. The kernel may have looked up
//! the pages of the buffer already, and writes into them later by a mapping of its own: direct I/O,
//! and every read from a FUSE file system such as the stand-ins' (fuse_get_user_pages in
//! fs/fuse/file.c). Write tracking does not see such a write.

use crate::error::{BodyError, stays};
use crate::pages::PAGE;
use crate::rings;
use migration_plan::Ranges;
use os::waiting::Call;

/// UIO_MAXIOV of linux/uio.h.
const VECTORS_MAX: u64 = 1024;
/// Kinds of files from which the kernel copies data as if the thread had written it.
const COPIED: [&str; 4] = ["pipe:[", "socket:[", "anon_inode:", "/dev/pts/"];

/// Finds the pages, as ascending ranges of start and end, into which reads that began earlier may
/// still write unseen.
pub fn buffers(pid: i32) -> Result<Vec<(u64, u64)>, BodyError> {
    // Nobody tells the buffers of asynchronous requests.
    if rings::has_rings(pid)? {
        return Ok(vec![(0, u64::MAX)]);
    }
    let seen = os::waiting::look(&os::process::threads(pid)?);
    if !seen.unseen.is_empty() {
        return stays("its threads get no CPU time, so their pending reads cannot be examined: try --how stop");
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
    buffers.into_iter().filter_map(|(at, bytes)| whole_pages(at, bytes)).collect()
}

/// Reads the buffers that a `struct iovec` array names (readv(2)).
fn vectors(pid: i32, at: u64, count: u64) -> Vec<(u64, u64)> {
    let mut bytes = vec![0; 16 * count.min(VECTORS_MAX) as usize];
    // A process whose memory cannot be read has ended, and does not move.
    if os::vm::read(pid, at, &mut bytes).is_err() {
        return Vec::new();
    }
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    bytes.chunks_exact(16).map(|vector| (word(&vector[..8]), word(&vector[8..]))).collect()
}

/// Gives start and end of the pages in which a buffer lies.
fn whole_pages(at: u64, bytes: u64) -> Option<(u64, u64)> {
    let end = at.checked_add(bytes)?.checked_next_multiple_of(PAGE as u64)?;
    (bytes > 0).then_some((at - at % PAGE as u64, end))
}
