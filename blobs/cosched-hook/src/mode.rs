//! The orders to a task. They lie in a file, whose path is in the environment.
//!
//! The file has four bytes: `T`, 1 for reading ahead, and the time to spin, microseconds, as a
//! number of two bytes, the lowest first.

use core::ffi::c_char;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::sys::{self, call};

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *mut c_char;
}

/// The variable of the environment.
const VARIABLE: &core::ffi::CStr = c"TERN_COSCHED";
/// The file is read again each time that a task has waited so often.
const AGAIN: u32 = 256;
/// The longest time to spin, microseconds.
const SPIN_MOST_US: u16 = 10_000;

static PATH: AtomicPtr<c_char> = AtomicPtr::new(core::ptr::null_mut());
static READS_AHEAD: AtomicBool = AtomicBool::new(false);
static SPIN_US: AtomicU32 = AtomicU32::new(0);
static WAITS: AtomicU32 = AtomicU32::new(0);

/// Reads the file whose path the environment has.
pub fn read() {
    // SAFETY: the name is a string of C. Programs rarely change their environment, and then the old
    // string stays.
    PATH.store(unsafe { getenv(VARIABLE.as_ptr()) }, Ordering::Relaxed);
    read_again();
}

fn read_again() {
    let path = PATH.load(Ordering::Relaxed);
    if path.is_null() {
        return;
    }
    const CLOSE_ON_EXEC: u64 = 0o2_000_000;
    let mut bytes = [0u8; 4];
    // SAFETY: a string of C, and a buffer of the stated size.
    let got = unsafe {
        let fd = call(sys::OPEN, [path as u64, CLOSE_ON_EXEC, 0, 0, 0, 0]);
        if fd < 0 {
            // The mode has ended.
            0
        } else {
            let got = call(sys::READ, [fd as u64, bytes.as_mut_ptr() as u64, bytes.len() as u64, 0, 0, 0]);
            call(sys::CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
            got
        }
    };
    let is_whole = got == bytes.len() as i64 && bytes[0] == b'T';
    let spin_us = u16::from_le_bytes([bytes[2], bytes[3]]).min(SPIN_MOST_US);
    READS_AHEAD.store(is_whole && bytes[1] == 1, Ordering::Relaxed);
    SPIN_US.store(if is_whole { spin_us.into() } else { 0 }, Ordering::Relaxed);
}

/// Notes that the task is about to wait.
pub fn waits() {
    if WAITS.fetch_add(1, Ordering::Relaxed) % AGAIN == AGAIN - 1 {
        read_again();
    }
}

/// Tells whether the task reads ahead.
pub fn reads_ahead() -> bool {
    READS_AHEAD.load(Ordering::Relaxed)
}

/// Gives the time to poll before a wait, microseconds.
pub fn spin_us() -> u32 {
    SPIN_US.load(Ordering::Relaxed)
}
