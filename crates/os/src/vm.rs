//! Memory of another process (process_vm_readv(2)).

use crate::error::check;
use crate::{Error, Result, apart};

/// Copies `into.len()` bytes from address `from` of process or thread `pid`; a part is an error
/// (EFAULT).
pub fn read(pid: i32, from: u64, into: &mut [u8]) -> Result<()> {
    if into.is_empty() {
        return Ok(());
    }
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: from as *mut _, iov_len: into.len() };
    // SAFETY: writes at most the length of a live slice.
    let n = check(unsafe { libc::process_vm_readv(pid, &local, 1, &remote, 1, 0) }, || {
        format!("reading memory of {pid} at {from:#x}")
    })?;
    whole(n as usize, into.len(), pid)
}

/// Copies `bytes` to address `to` of process or thread `pid`; a part is an error (EFAULT).
pub fn write(pid: i32, to: u64, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: to as *mut _, iov_len: bytes.len() };
    // SAFETY: reads at most the length of a live slice.
    let n = check(unsafe { libc::process_vm_writev(pid, &local, 1, &remote, 1, 0) }, || {
        format!("writing memory of {pid} at {to:#x}")
    })?;
    whole(n as usize, bytes.len(), pid)
}

/// The same as [`read`], with the rights of user and group `id` to files, one of which may be this
/// process' own to serve ([`crate::apart`]).
pub fn read_as(id: u32, pid: i32, from: u64, into: &mut [u8]) -> Result<()> {
    apart::once(id, || read(pid, from, into))
}

/// The same as [`read_string`], so.
pub fn read_string_as(id: u32, pid: i32, from: u64, max: usize) -> Result<Vec<u8>> {
    apart::once(id, || read_string(pid, from, max))
}

/// The same as [`write()`], so.
pub fn write_as(id: u32, pid: i32, to: u64, bytes: &[u8]) -> Result<()> {
    apart::once(id, || write(pid, to, bytes))
}

fn whole(n: usize, wanted: usize, pid: i32) -> Result<()> {
    if n == wanted {
        Ok(())
    } else {
        Err(Error::new(format!("copying memory of {pid}"), std::io::Error::from_raw_os_error(libc::EFAULT)))
    }
}

/// Reads a string that ends with NUL, at most `max` bytes long (else ENAMETOOLONG), without the
/// NUL.
pub fn read_string(pid: i32, from: u64, max: usize) -> Result<Vec<u8>> {
    const PAGE: u64 = 4096;
    let mut out = Vec::new();
    let mut at = from;
    while out.len() < max {
        let step = (PAGE - at % PAGE).min((max - out.len()) as u64) as usize;
        let old = out.len();
        out.resize(old + step, 0);
        read(pid, at, &mut out[old..])?;
        if let Some(end) = out[old..].iter().position(|b| *b == 0) {
            out.truncate(old + end);
            return Ok(out);
        }
        at += step as u64;
    }
    Err(Error::new(format!("reading a string of {pid}"), std::io::Error::from_raw_os_error(libc::ENAMETOOLONG)))
}
