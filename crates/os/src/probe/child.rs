//! Tries that change the process that makes them run in a child.

use super::Outcome;

/// Runs `attempt` in a child. It answers with a number, or a negative error number.
///
/// The caller may have other threads: between fork and exit the child must make plain calls only
/// (no allocation, no locks).
pub fn outcome(attempt: impl FnOnce() -> i64) -> Outcome {
    let mut ends = [0; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Outcome::Missing(errno());
    }
    // SAFETY: `attempt` does what is allowed after a fork, as said above.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let answer = attempt().to_ne_bytes();
        // SAFETY: writes eight bytes that are there, then ends without running the parent's exit
        // handlers.
        unsafe {
            libc::write(ends[1], answer.as_ptr().cast(), answer.len());
            libc::_exit(0)
        }
    }
    let failed = errno();
    let mut answer = [0; 8];
    // SAFETY: closes our own ends, reads into the array, reaps our own child. The read ends with
    // the child at the latest.
    let got = unsafe {
        libc::close(ends[1]);
        let got = if child > 0 { libc::read(ends[0], answer.as_mut_ptr().cast(), answer.len()) } else { 0 };
        libc::close(ends[0]);
        while child > 0 && libc::waitpid(child, std::ptr::null_mut(), 0) == -1 && errno() == libc::EINTR {}
        got
    };
    match (child, got) {
        (..0, _) => Outcome::Missing(failed),
        (_, 8) => from(i64::from_ne_bytes(answer)),
        _ => Outcome::Missing(libc::ECHILD),
    }
}

/// A number, or a negative error number.
pub fn from(answer: i64) -> Outcome {
    match u64::try_from(answer) {
        Ok(value) => Outcome::Found(value),
        Err(_) => Outcome::Missing(i32::try_from(-answer).unwrap_or(libc::EIO)),
    }
}

/// Gives the result of a call: -1 becomes the negative error number.
pub fn result(answer: i64) -> i64 {
    if answer == -1 { -i64::from(errno()) } else { answer }
}

/// Gives the error number of the last call.
pub fn errno() -> i32 {
    // SAFETY: the address is always valid in the calling thread.
    unsafe { *libc::__errno_location() }
}

/// Writes to a file whose path ends with a zero. No allocation.
pub fn write(path: &std::ffi::CStr, text: &[u8]) -> i64 {
    // SAFETY: path and text are valid for the calls; the descriptor is our own.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return -i64::from(errno());
        }
        let written = result(libc::write(fd, text.as_ptr().cast(), text.len()) as i64);
        libc::close(fd);
        written.min(0)
    }
}
