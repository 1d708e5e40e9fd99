//! The functions of the C library before which this one stands.

use core::ffi::{c_char, c_int, c_long, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
}

/// The next library that has the function: that of the C library.
const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;
/// Any library that the program has loaded.
const RTLD_DEFAULT: *mut c_void = core::ptr::null_mut();
const CLOCK_MONOTONIC: c_int = 1;

/// A time as a timespec or a timeval.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Time {
    /// Seconds, whole ones.
    pub s: c_long,
    /// Nanoseconds, or microseconds.
    pub part: c_long,
}

/// A function, found when the library is loaded.
pub struct Original(AtomicPtr<c_void>, &'static core::ffi::CStr);

pub static READ: Original = Original::new(c"read");
pub static SELECT: Original = Original::new(c"select");
pub static POLL: Original = Original::new(c"poll");
pub static EPOLL_WAIT: Original = Original::new(c"epoll_wait");
pub static CLOSE: Original = Original::new(c"close");
pub static DUP2: Original = Original::new(c"dup2");

impl Original {
    const fn new(name: &'static core::ffi::CStr) -> Original {
        Original(AtomicPtr::new(core::ptr::null_mut()), name)
    }

    fn get(&self) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is a string of C.
        let found = unsafe { dlsym(RTLD_NEXT, self.1.as_ptr()) };
        if found.is_null() {
            // No C library is without these functions.
            crate::sys::exit_group(127);
        }
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

/// Finds all functions, while the program has one thread.
pub fn find_all() {
    for original in [&READ, &SELECT, &POLL, &EPOLL_WAIT, &CLOSE, &DUP2] {
        original.get();
    }
}

/// Finds a function of any library; null if there is none.
pub fn anywhere(name: &core::ffi::CStr) -> *mut c_void {
    // SAFETY: the name is a string of C.
    unsafe { dlsym(RTLD_DEFAULT, name.as_ptr()) }
}

/// Reads the monotonic clock, microseconds, without a system call.
pub fn now_us() -> u64 {
    let mut now = Time::default();
    // SAFETY: writes one time.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut now) };
    now.s as u64 * 1_000_000 + now.part as u64 / 1000
}

/// # Safety
/// As read(2).
pub unsafe fn read(fd: c_int, to: *mut u8, bytes: usize) -> isize {
    type Function = unsafe extern "C" fn(c_int, *mut u8, usize) -> isize;
    // SAFETY: the function of this name has this type, and the caller keeps its rules.
    unsafe { transmute::<*mut c_void, Function>(READ.get())(fd, to, bytes) }
}

/// The sets of select(2).
#[derive(Clone, Copy)]
pub struct Sets {
    pub count: c_int,
    pub read: *mut u64,
    pub write: *mut u64,
    pub except: *mut u64,
}

/// # Safety
/// As select(2).
pub unsafe fn select(sets: Sets, timeout: *mut Time) -> c_int {
    type Function = unsafe extern "C" fn(c_int, *mut u64, *mut u64, *mut u64, *mut Time) -> c_int;
    // SAFETY: as for `read`.
    unsafe { transmute::<*mut c_void, Function>(SELECT.get())(sets.count, sets.read, sets.write, sets.except, timeout) }
}

/// # Safety
/// As poll(2).
pub unsafe fn poll(fds: *mut Poll, count: u64, timeout_ms: c_int) -> c_int {
    type Function = unsafe extern "C" fn(*mut Poll, u64, c_int) -> c_int;
    // SAFETY: as for `read`.
    unsafe { transmute::<*mut c_void, Function>(POLL.get())(fds, count, timeout_ms) }
}

/// One descriptor of poll(2).
#[repr(C)]
pub struct Poll {
    pub fd: c_int,
    pub wanted: i16,
    pub found: i16,
}

/// # Safety
/// As epoll_wait(2).
pub unsafe fn epoll_wait(epoll: c_int, events: *mut c_void, most: c_int, timeout_ms: c_int) -> c_int {
    type Function = unsafe extern "C" fn(c_int, *mut c_void, c_int, c_int) -> c_int;
    // SAFETY: as for `read`.
    unsafe { transmute::<*mut c_void, Function>(EPOLL_WAIT.get())(epoll, events, most, timeout_ms) }
}

/// # Safety
/// As close(2).
pub unsafe fn close(fd: c_int) -> c_int {
    // SAFETY: as for `read`.
    unsafe { transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> c_int>(CLOSE.get())(fd) }
}

/// # Safety
/// As dup2(2).
pub unsafe fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: as for `read`.
    unsafe { transmute::<*mut c_void, unsafe extern "C" fn(c_int, c_int) -> c_int>(DUP2.get())(fd, to) }
}
