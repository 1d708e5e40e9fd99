//! Signals that tell of a descriptor (F_SETSIG in fcntl(2)): home's kernel names the deputy's, and the program knows its own.

use super::Tracer;
use os::ptrace::HostTid;
use std::ops::RangeInclusive;

/// Where siginfo_t names the descriptor (`si_fd`, asm-generic/siginfo.h).
const AT_DESCRIPTOR: usize = 24;
const AT_CODE: usize = 8;
/// POLL_IN to POLL_HUP.
const POLLED: RangeInclusive<i32> = 1..=6;
/// Of a signal whose own codes mean something else.
const SI_SIGIO: i32 = -5;
const WITH_CODES: [i32; 7] =
    [libc::SIGILL, libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP, libc::SIGCHLD, libc::SIGSYS];

/// The descriptor that a signal tells of.
fn descriptor(info: &[u8; 128]) -> Option<i32> {
    let number = |at: usize| info[at..].first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
    let (signal, code) = (number(0)?, number(AT_CODE)?);
    let tells = code == SI_SIGIO || POLLED.contains(&code) && !WITH_CODES.contains(&signal);
    tells.then(|| number(AT_DESCRIPTOR)).flatten()
}

impl Tracer {
    /// What a signal from home carries, as its process understands it: with the lowest of its descriptors that stands for home's.
    pub fn understood(&self, pid: i32, info: [u8; 128]) -> [u8; 128] {
        let (Some(at_home), Some(host)) = (descriptor(&info), self.room.guests().host(pid)) else { return info };
        let is_it = |fd: &i32| self.stands_for(pid, host, *fd) == Some(at_home);
        // Most have the same number.
        let own = Some(at_home).filter(is_it).or_else(|| {
            let all = os::process::descriptors(host.0).unwrap_or_default();
            all.into_iter().find(is_it)
        });
        let mut understood = info;
        if let Some(own) = own {
            understood[AT_DESCRIPTOR..AT_DESCRIPTOR + size_of::<i32>()].copy_from_slice(&own.to_ne_bytes());
        }
        understood
    }

    fn stands_for(&self, pid: i32, host: HostTid, fd: i32) -> Option<i32> {
        let standin = self.room.standin_of(host, fd)?;
        self.room.guests().get(pid)?.numbers.get(&standin).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(signal: i32, code: i32, fd: i32) -> [u8; 128] {
        let mut info = [0; 128];
        for (at, number) in [(0, signal), (AT_CODE, code), (AT_DESCRIPTOR, fd)] {
            info[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        info
    }

    #[test]
    fn who_tells_of_a_descriptor_is_told_from_who_does_not() {
        assert_eq!(descriptor(&info(libc::SIGUSR1, 1, 7)), Some(7));
        assert_eq!(descriptor(&info(libc::SIGSEGV, SI_SIGIO, 7)), Some(7));
        for (signal, code) in
            [(libc::SIGCHLD, 1), (libc::SIGSEGV, 1), (libc::SIGUSR1, libc::SI_USER), (libc::SIGIO, libc::SI_KERNEL)]
        {
            assert_eq!(descriptor(&info(signal, code, 7)), None);
        }
    }
}
