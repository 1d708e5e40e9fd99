//! Reading, and the end of descriptors.

use core::arch::naked_asm;
use core::ffi::c_int;

use crate::sys::{self, call};
use crate::{ahead, mode, original};

/// Bytes of the header of a fragment (TDFRAGHDR in PVM's src/tdpro.h).
const HEADER_BYTES: usize = 16;

/// read(2). Passes on where the call comes from.
#[unsafe(naked)]
#[unsafe(no_mangle)]
extern "C" fn read(fd: c_int, to: *mut u8, bytes: usize) -> isize {
    naked_asm!("mov rcx, [rsp]", "jmp {}", sym read_from)
}

/// Reads as read(2) does.
///
/// # Safety
/// As read(2).
unsafe extern "C" fn read_from(fd: c_int, to: *mut u8, bytes: usize, caller: usize) -> isize {
    if ahead::waiting(fd) > 0 {
        // SAFETY: the caller's promise.
        return unsafe { read_waiting(fd, to, bytes) };
    }
    let begins = bytes == HEADER_BYTES && mode::reads_ahead() && ahead::is_of_pvm(caller);
    let Some(room) = begins.then(|| ahead::room(fd)).flatten() else {
        // SAFETY: the caller's promise.
        return unsafe { original::read(fd, to, bytes) };
    };
    // SAFETY: the buffer has so many bytes.
    let got = unsafe { original::read(fd, room, ahead::BYTES) };
    let Ok(count) = usize::try_from(got) else { return got };
    ahead::fill(fd, count);
    // SAFETY: the caller's promise.
    unsafe { ahead::take(fd, to, bytes) as isize }
}

/// Serves what waits, and what the socket has beyond it.
///
/// # Safety
/// As read(2).
unsafe fn read_waiting(fd: c_int, to: *mut u8, bytes: usize) -> isize {
    const DO_NOT_WAIT: u64 = 0x40;
    // SAFETY: the caller's promise.
    let count = unsafe { ahead::take(fd, to, bytes) };
    if count == bytes {
        return count as isize;
    }
    // SAFETY: behind what was taken.
    let more =
        unsafe { call(sys::RECVFROM, [fd as u64, to.add(count) as u64, (bytes - count) as u64, DO_NOT_WAIT, 0, 0]) };
    // The next read, when nothing waits any more, finds the error again.
    count as isize + more.max(0) as isize
}

/// close(2).
///
/// # Safety
/// As close(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    ahead::forget(fd);
    // SAFETY: the caller's promise.
    unsafe { original::close(fd) }
}

/// dup2(2).
///
/// # Safety
/// As dup2(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    if fd != to {
        ahead::forget(to);
    }
    // SAFETY: the caller's promise.
    unsafe { original::dup2(fd, to) }
}
