//! The descriptor that a signal tells of (F_SETSIG in fcntl(2)).

use std::ops::RangeInclusive;

/// A siginfo_t (asm-generic/siginfo.h).
pub type Info = [u8; 128];

const AT_CODE: usize = 8;
/// Where `si_fd` begins, bytes.
const AT_DESCRIPTOR: usize = 24;
/// POLL_IN to POLL_HUP.
const POLLED: RangeInclusive<i32> = 1..=6;
/// Of a signal whose own codes mean something else.
const SI_SIGIO: i32 = -5;
const WITH_CODES: [i32; 7] =
    [libc::SIGILL, libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP, libc::SIGCHLD, libc::SIGSYS];

/// Gives the descriptor, if the signal tells of one.
pub fn descriptor(info: &Info) -> Option<i32> {
    let number = |at: usize| info[at..].first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
    let (signal, code) = (number(0)?, number(AT_CODE)?);
    let tells = code == SI_SIGIO || POLLED.contains(&code) && !WITH_CODES.contains(&signal);
    tells.then(|| number(AT_DESCRIPTOR)).flatten()
}

/// Gives the same signal, of another descriptor.
pub fn with_descriptor(mut info: Info, fd: i32) -> Info {
    info[AT_DESCRIPTOR..AT_DESCRIPTOR + size_of::<i32>()].copy_from_slice(&fd.to_ne_bytes());
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(signal: i32, code: i32) -> Info {
        let mut info = [0; 128];
        info[..4].copy_from_slice(&signal.to_ne_bytes());
        info[AT_CODE..AT_CODE + 4].copy_from_slice(&code.to_ne_bytes());
        with_descriptor(info, 7)
    }

    #[test]
    fn who_tells_of_a_descriptor_is_told_from_who_does_not() {
        assert_eq!(descriptor(&info(libc::SIGUSR1, 1)), Some(7));
        assert_eq!(descriptor(&info(libc::SIGSEGV, SI_SIGIO)), Some(7));
        let others = [(libc::SIGCHLD, 1), (libc::SIGSEGV, 1), (libc::SIGUSR1, 0), (libc::SIGIO, libc::SI_KERNEL)];
        assert!(others.into_iter().all(|(signal, code)| descriptor(&info(signal, code)).is_none()));
    }
}
