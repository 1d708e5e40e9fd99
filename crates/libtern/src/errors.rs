//! Failures, as C programs see them.

use std::io;

/// A number of errno(3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// The result of most functions of this library.
pub type Outcome<T> = Result<T, Errno>;

impl From<io::Error> for Errno {
    fn from(e: io::Error) -> Errno {
        let number = match e.kind() {
            // No daemon has made the socket.
            io::ErrorKind::NotFound => libc::ECONNREFUSED,
            io::ErrorKind::UnexpectedEof => libc::ECONNRESET,
            _ => e.raw_os_error().unwrap_or(libc::EIO),
        };
        Errno(number)
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(e: rustix::io::Errno) -> Errno {
        Errno(e.raw_os_error())
    }
}

/// Gives the value to C, or -1 with errno.
pub fn to_c(outcome: Outcome<i32>) -> i32 {
    outcome.unwrap_or_else(|Errno(number)| {
        // SAFETY: errno of the calling thread.
        unsafe { *libc::__errno_location() = number };
        -1
    })
}
