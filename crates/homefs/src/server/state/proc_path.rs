//! Paths of descriptors in /proc.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The path of a descriptor in /proc, which opens or changes the file itself, links included,
/// without an allocation.
pub(crate) struct ProcPath([u8; 32]);

/// Gives the path of a descriptor of this process.
pub(crate) fn proc_path(fd: &OwnedFd) -> ProcPath {
    let mut path = [0; 32];
    // "/proc/self/fd/" and ten digits leave a NUL at the end.
    let _ = io::Write::write_fmt(&mut &mut path[..31], format_args!("/proc/self/fd/{}", fd.as_raw_fd()));
    ProcPath(path)
}

impl std::ops::Deref for ProcPath {
    type Target = CStr;
    fn deref(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }
}
