//! The descriptors of make's tokens. A make before 4.4 closes them in all programs but those that
//! it takes for makes, so that a make below cmake(1) would run alone.

use abi::spread;

use crate::sys::{self, call};
use crate::text::{self, Text, Words};

/// The programs that take tokens.
const TAKERS: [&[u8]; 4] = [b"make", b"gmake", b"cargo", b"ninja"];
/// The option of MAKEFLAGS that names the descriptors.
const OPTION: &[u8] = b"--jobserver-auth=";

/// Opens the tokens where MAKEFLAGS says they are, if this is a make and nothing is open there.
///
/// # Safety
/// `environment` is an array of strings of C.
pub unsafe fn reopen(environment: Words) {
    // SAFETY: as the caller promises.
    let (Some(path), Some(flags)) =
        (unsafe { (text::value(environment, spread::TOKENS), text::value(environment, b"MAKEFLAGS=")) })
    else {
        return;
    };
    if !is_taker() {
        return;
    }
    let Some([reads, writes]) = descriptors(flags) else { return };
    if is_open(reads) || is_open(writes) {
        return;
    }
    let mut fifo = Text::<256>::new();
    fifo.push(path);
    if !fifo.is_whole() {
        return;
    }
    for fd in [reads, writes] {
        const READ_WRITE: u64 = 2;
        // SAFETY: reads a string of C.
        let opened = unsafe { call(sys::OPEN, [fifo.as_ptr() as u64, READ_WRITE, 0, 0, 0, 0]) };
        let Ok(opened) = u64::try_from(opened) else { return };
        if opened != fd {
            // SAFETY: nothing was open there.
            unsafe { call(sys::DUP3, [opened, fd, 0, 0, 0, 0]) };
            sys::close(opened);
        }
    }
}

fn is_taker() -> bool {
    let mut path = [0u8; 4096];
    // SAFETY: the kernel writes at most as much as there is.
    let length = unsafe {
        call(sys::READLINK, [c"/proc/self/exe".as_ptr() as u64, path.as_mut_ptr() as u64, path.len() as u64, 0, 0, 0])
    };
    let Ok(length) = usize::try_from(length) else { return false };
    TAKERS.contains(&text::file_name(&path[..length]))
}

fn is_open(fd: u64) -> bool {
    const F_GETFD: u64 = 1;
    // SAFETY: touches no memory.
    unsafe { call(sys::FCNTL, [fd, F_GETFD, 0, 0, 0, 0]) >= 0 }
}

/// Finds the two numbers.
fn descriptors(flags: &[u8]) -> Option<[u64; 2]> {
    let at = flags.windows(OPTION.len()).rposition(|part| part == OPTION)?;
    let mut numbers = [0u64; 2];
    let mut which = 0;
    let mut digits = 0;
    for byte in &flags[at + OPTION.len()..] {
        match byte {
            b'0'..=b'9' if digits < 6 => {
                numbers[which] = numbers[which] * 10 + u64::from(byte - b'0');
                digits += 1;
            }
            b',' if which == 0 && digits > 0 => (which, digits) = (1, 0),
            b' ' => break,
            _ => return None,
        }
    }
    (which == 1 && digits > 0).then_some(numbers)
}
