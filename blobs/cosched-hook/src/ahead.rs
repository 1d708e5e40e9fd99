//! Bytes that were read ahead, a buffer for each descriptor.
//!
//! The buffers lie in a mapping that a child does not inherit (MADV_WIPEONFORK): what was read is
//! its parent's. One thread at a time uses a descriptor of PVM, as PVM demands.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::original;
use crate::sys::{self, call};

/// Descriptors from this number on are not read ahead.
const FDS: usize = 256;
/// Bytes of a buffer.
pub const BYTES: usize = 65_536;

/// The bytes that were read ahead on a descriptor, and its kind.
#[repr(C)]
struct Buffer {
    kind: u32,
    begin: u32,
    end: u32,
}

const UNKNOWN: u32 = 0;
const STREAM: u32 = 1;
const OTHER: u32 = 2;

/// The mapping: what is known of all descriptors, and their buffers.
#[repr(C)]
struct Buffers {
    known: [Buffer; FDS],
    bytes: [[u8; BYTES]; FDS],
}

static BUFFERS: AtomicPtr<Buffers> = AtomicPtr::new(core::ptr::null_mut());
/// Where the code of libpvm3 lies.
static CODE_BEGIN: AtomicUsize = AtomicUsize::new(0);
static CODE_END: AtomicUsize = AtomicUsize::new(0);

/// The result of dladdr(3).
#[repr(C)]
struct Found {
    file: *const c_char,
    base: *mut u8,
    name: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
}

/// Prepares for a program that uses libpvm3.
pub fn begin() {
    let function = original::anywhere(c"pvm_recv");
    if function.is_null() {
        return;
    }
    let mut found = Found {
        file: core::ptr::null(),
        base: core::ptr::null_mut(),
        name: core::ptr::null(),
        address: core::ptr::null_mut(),
    };
    // SAFETY: writes one `Found`.
    if unsafe { dladdr(function, &mut found) } == 0 || !note_code(found.base, function as usize) {
        return;
    }
    map();
}

/// Notes the part of a loaded file with its code, from its program headers (elf(5)).
fn note_code(base: *const u8, within: usize) -> bool {
    const HEADERS_AT: usize = 32;
    const SIZE_AT: usize = 54;
    const COUNT_AT: usize = 56;
    const LOAD: u32 = 1;
    // SAFETY: the dynamic linker has mapped the file's header and program headers there.
    let number = |at: usize| unsafe { base.add(at).cast::<u64>().read_unaligned() };
    let (headers, size, count) = (number(HEADERS_AT), number(SIZE_AT) as u16, number(COUNT_AT) as u16);
    for index in 0..usize::from(count) {
        let at = headers as usize + index * usize::from(size);
        let (kind, address, bytes) = (number(at) as u32, number(at + 16) as usize, number(at + 40) as usize);
        let begin = base as usize + address;
        if kind == LOAD && (begin..begin + bytes).contains(&within) {
            CODE_BEGIN.store(begin, Ordering::Relaxed);
            CODE_END.store(begin + bytes, Ordering::Relaxed);
            return true;
        }
    }
    false
}

fn map() {
    const READ_WRITE: u64 = 3;
    const PRIVATE_ANONYMOUS_NORESERVE: u64 = 0x4022;
    const WIPE_ON_FORK: u64 = 18;
    let bytes = size_of::<Buffers>() as u64;
    // SAFETY: a new mapping.
    unsafe {
        let at = call(sys::MMAP, [0, bytes, READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE, u64::MAX, 0]);
        if at > 0 && call(sys::MADVISE, [at as u64, bytes, WIPE_ON_FORK, 0, 0, 0]) == 0 {
            BUFFERS.store(at as *mut Buffers, Ordering::Relaxed);
        }
    }
}

/// Tells whether an address lies in libpvm3's code.
pub fn is_of_pvm(address: usize) -> bool {
    (CODE_BEGIN.load(Ordering::Relaxed)..CODE_END.load(Ordering::Relaxed)).contains(&address)
}

fn known(fd: c_int) -> Option<*mut Buffer> {
    let buffers = BUFFERS.load(Ordering::Relaxed);
    let index = usize::try_from(fd).ok().filter(|index| *index < FDS && !buffers.is_null())?;
    // SAFETY: inside the mapping.
    Some(unsafe { (&raw mut (*buffers).known).cast::<Buffer>().add(index) })
}

/// Gives the buffer of a descriptor.
fn bytes(fd: c_int) -> *mut u8 {
    let buffers = BUFFERS.load(Ordering::Relaxed);
    // SAFETY: only for descriptors that `known` has found.
    unsafe { (&raw mut (*buffers).bytes).cast::<u8>().add(fd as usize * BYTES) }
}

/// Tells how many bytes wait in the buffer of a descriptor.
pub fn waiting(fd: c_int) -> usize {
    // SAFETY: inside the mapping.
    known(fd).map_or(0, |known| unsafe { (*known).end - (*known).begin } as usize)
}

/// Copies what waits for a descriptor, at most so many bytes. Gives their number.
///
/// # Safety
/// `to` has room for them.
pub unsafe fn take(fd: c_int, to: *mut u8, most: usize) -> usize {
    let Some(known) = known(fd) else { return 0 };
    let count = waiting(fd).min(most);
    // SAFETY: inside the mapping, and the caller's promise.
    unsafe {
        to.copy_from_nonoverlapping(bytes(fd).add((*known).begin as usize), count);
        (*known).begin += count as u32;
    }
    count
}

/// Gives the buffer for what is about to be read, if the descriptor is a stream socket.
pub fn room(fd: c_int) -> Option<*mut u8> {
    let known = known(fd)?;
    // SAFETY: inside the mapping.
    unsafe {
        if (*known).kind == UNKNOWN {
            (*known).kind = if is_stream(fd) { STREAM } else { OTHER };
        }
        ((*known).kind == STREAM).then(|| bytes(fd))
    }
}

/// Notes that so many bytes were read into the buffer of a descriptor.
pub fn fill(fd: c_int, count: usize) {
    if let Some(known) = known(fd) {
        // SAFETY: inside the mapping.
        unsafe {
            (*known).begin = 0;
            (*known).end = count as u32;
        }
    }
}

/// Forgets a descriptor that is closed.
pub fn forget(fd: c_int) {
    if let Some(known) = known(fd) {
        // SAFETY: inside the mapping.
        unsafe { *known = Buffer { kind: UNKNOWN, begin: 0, end: 0 } };
    }
}

fn is_stream(fd: c_int) -> bool {
    const SOL_SOCKET: u64 = 1;
    const SO_TYPE: u64 = 3;
    const SOCK_STREAM: c_int = 1;
    let (mut kind, mut bytes): (c_int, u32) = (0, 4);
    let to = [&raw mut kind as u64, &raw mut bytes as u64];
    // SAFETY: writes one number of this size.
    let done = unsafe { call(sys::GETSOCKOPT, [fd as u64, SOL_SOCKET, SO_TYPE, to[0], to[1], 0]) };
    done == 0 && kind == SOCK_STREAM
}
