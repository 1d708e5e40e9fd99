//! Memory of guests. A page of it may be a home file's that nobody has touched yet: its file system
//! is asked for it only by ids that the room knows.

use crate::sandbox::ids;
use os::Result;

/// Copies `into.len()` bytes from address `from` of a guest's thread; a part is an error (EFAULT).
pub fn read(host: i32, from: u64, into: &mut [u8]) -> Result<()> {
    os::vm::read(host, from, into).or_else(|_| os::vm::read_as(ids::root(), host, from, into))
}

/// A string that ends with NUL, without it, of at most `max` bytes (else ENAMETOOLONG).
pub fn read_string(host: i32, from: u64, max: usize) -> Result<Vec<u8>> {
    os::vm::read_string(host, from, max).or_else(|_| os::vm::read_string_as(ids::root(), host, from, max))
}

/// Copies `bytes` to address `to` of a guest's thread; a part is an error (EFAULT).
///
/// A page that is watched, and protected between the kernel's finding it and copying, does not tell
/// that it was written: of each one byte is written once more.
pub fn write(host: i32, to: u64, bytes: &[u8]) -> Result<()> {
    const PAGE: u64 = 4096;
    let put = |to: u64, bytes: &[u8]| {
        os::vm::write(host, to, bytes).or_else(|_| os::vm::write_as(ids::root(), host, to, bytes))
    };
    put(to, bytes)?;
    let mut at = 0;
    while let Some(byte) = bytes.get(at..at + 1) {
        put(to + at as u64, byte)?;
        at += (PAGE - (to + at as u64) % PAGE) as usize;
    }
    Ok(())
}
