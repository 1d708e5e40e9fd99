//! State of a stopped thread beyond its general registers (ptrace(2)).

use super::{Event, HostTid, Stopped, TraceError, Traced, decode, request, wait_for, xstate};
use crate::error::check;
use crate::{Error, Result};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Where a thread has its restartable-sequences area (rseq(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rseq {
    /// Its address; 0: none is registered.
    pub area: u64,
    /// Its size, bytes.
    pub bytes: u32,
    /// The signature before abort handlers.
    pub signature: u32,
}

/// elf.h: the note that names the extended state.
const NT_X86_XSTATE: usize = 0x202;
/// More than any extended state that exists (AMX tiles are 8 KiB of it).
const XSTATE_BYTES_MAX: usize = 16 << 10;
/// Bytes of the kernel's signal mask.
const MASK_BYTES: usize = 8;

/// As [`super::wait_for`], but not for ever: `None` if nothing happened in this time.
pub fn wait_within(tid: HostTid, patience: Duration) -> Result<Option<Event>> {
    /// A thread that runs stops at once; one that the scheduler keeps waiting needs no busy
    /// watcher.
    const BUSY: Duration = Duration::from_micros(200);
    let begun = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: writes one int.
        let done = unsafe { libc::waitpid(tid.0, &mut status, libc::__WALL | libc::WNOHANG) };
        match check(done, || format!("waiting for {}", tid.0)) {
            Err(e) if e.errno() == libc::EINTR => {}
            Err(e) => return Err(e),
            Ok(0) if begun.elapsed() > patience => return Ok(None),
            Ok(0) if begun.elapsed() < BUSY => std::thread::yield_now(),
            Ok(0) => std::thread::sleep(Duration::from_micros(100)),
            Ok(_) => return Ok(Some(decode(tid, status))),
        }
    }
}

impl Stopped {
    /// Gives the extended state (XSAVE area in its standard form).
    pub fn extended_state(&self) -> Traced<Vec<u8>> {
        let mut bytes = vec![0u8; XSTATE_BYTES_MAX];
        let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        request(libc::PTRACE_GETREGSET, self.tid, NT_X86_XSTATE, &raw mut iov as usize)?;
        bytes.truncate(iov.iov_len);
        Ok(bytes)
    }

    /// Gives the same, without zeros at its end.
    pub fn cut_extended_state(&self) -> Traced<Vec<u8>> {
        self.extended_state().map(xstate::cut)
    }

    /// Sets the extended state, which may be cut, or another processor's: parts that this one has
    /// not must not be in use.
    pub fn set_extended_state(&mut self, bytes: &[u8]) -> Traced<()> {
        /// This processor's: its size, and of which parts. All of its cores have the same.
        static OWN: OnceLock<Vec<u8>> = OnceLock::new();
        let own = match OWN.get() {
            Some(own) => own,
            None => {
                let own = self.extended_state()?;
                OWN.get_or_init(|| own)
            }
        };
        let fitted = xstate::fitted(bytes, own).map_err(|what| {
            let why = std::io::Error::other(format!("this processor has no {what}"));
            TraceError::Failed(Error::new("setting the extended state", why))
        })?;
        self.put_extended_state(&fitted)
    }

    fn put_extended_state(&mut self, bytes: &[u8]) -> Traced<()> {
        let mut iov = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        request(libc::PTRACE_SETREGSET, self.tid, NT_X86_XSTATE, &raw mut iov as usize).map(drop)
    }

    /// Blocked signals (bit n-1 for signal n).
    pub fn mask(&self) -> Traced<u64> {
        let mut mask = 0u64;
        request(libc::PTRACE_GETSIGMASK, self.tid, MASK_BYTES, &raw mut mask as usize)?;
        Ok(mask)
    }

    /// Sets the blocked signals.
    pub fn set_mask(&mut self, mask: u64) -> Traced<()> {
        request(libc::PTRACE_SETSIGMASK, self.tid, MASK_BYTES, &raw const mask as usize).map(drop)
    }

    /// Tells where its restartable-sequences area is.
    pub fn rseq(&self) -> Traced<Rseq> {
        const PTRACE_GET_RSEQ_CONFIGURATION: u32 = 0x420f;
        /// `struct ptrace_rseq_configuration`: address, size, signature, flags, padding.
        #[repr(C)]
        #[derive(Default)]
        struct Configuration {
            area: u64,
            bytes: u32,
            signature: u32,
            flags: u32,
            padding: u32,
        }
        let mut found = Configuration::default();
        let bytes = size_of::<Configuration>();
        request(PTRACE_GET_RSEQ_CONFIGURATION, self.tid, bytes, &raw mut found as usize)?;
        Ok(Rseq { area: found.area, bytes: found.bytes, signature: found.signature })
    }

    /// Its system calls come back to itself (PR_SET_SYSCALL_USER_DISPATCH). Kernels before 6.4 do
    /// not tell.
    pub fn dispatches_calls(&self) -> Traced<bool> {
        const PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG: u32 = 0x4211;
        // `struct ptrace_sud_config`: mode, selector, offset, length.
        let mut found = [0u64; 4];
        let at = &raw mut found as usize;
        told(request(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, self.tid, size_of_val(&found), at))?;
        Ok(found[0] != 0)
    }

    /// It may use ports of the machine (ioperm(2)).
    pub fn has_ports(&self) -> Traced<bool> {
        /// The note of I/O permissions (elf.h).
        const NT_386_IOPERM: usize = 0x201;
        let mut first = 0u64;
        let mut iov = libc::iovec { iov_base: (&raw mut first).cast(), iov_len: size_of_val(&first) };
        let has = told(request(libc::PTRACE_GETREGSET, self.tid, NT_386_IOPERM, &raw mut iov as usize))?;
        Ok(has && iov.iov_len > 0)
    }

    /// Head and length of its list of robust futexes (get_robust_list(2)).
    pub fn robust_list(&self) -> Traced<(u64, u64)> {
        let (mut head, mut bytes) = (0u64, 0u64);
        // SAFETY: the kernel writes two words.
        let done = unsafe { libc::syscall(libc::SYS_get_robust_list, self.tid.0, &raw mut head, &raw mut bytes) };
        check(done, || format!("asking for the robust futexes of {}", self.tid.0))?;
        Ok((head, bytes))
    }

    /// Signals that wait for this thread (`shared`: for its process), with what they carry, oldest
    /// first; at most `max`.
    pub fn pending(&self, shared: bool, max: usize) -> Traced<Vec<[u8; 128]>> {
        const PTRACE_PEEKSIGINFO_SHARED: u32 = 1;
        #[repr(C)]
        struct Which {
            offset: u64,
            flags: u32,
            count: i32,
        }
        // Mostly there are none.
        const AT_ONCE: usize = 32;
        let flags = if shared { PTRACE_PEEKSIGINFO_SHARED } else { 0 };
        let mut found = Vec::new();
        let mut some = [[0u8; 128]; AT_ONCE];
        while found.len() < max {
            let which = Which { offset: found.len() as u64, flags, count: AT_ONCE as i32 };
            let n =
                request(PTRACE_PEEKSIGINFO, self.tid, &raw const which as usize, some.as_mut_ptr() as usize)? as usize;
            found.extend(some.iter().take(n));
            if n < AT_ONCE {
                break;
            }
        }
        Ok(found)
    }

    /// Makes the interrupted call again whose end its registers show: it is stopped where that
    /// begins. All its signals are blocked.
    pub fn make_call_again(mut self) -> Traced<Stopped> {
        const INSTRUCTION_BYTES: u64 = 2;
        let tid = self.tid;
        let mut registers = self.registers()?;
        registers.rax = registers.orig_rax;
        registers.orig_rax = u64::MAX;
        registers.rip = registers.rip.wrapping_sub(INSTRUCTION_BYTES);
        self.set_registers(&registers)?;
        self.resume_to_call_end()?;
        loop {
            match wait_for(tid)? {
                // Without PTRACE_O_TRACESYSGOOD the stop looks like a trap.
                Event::SystemCall(stopped) | Event::Signal(stopped, libc::SIGTRAP) => return Ok(stopped),
                Event::Exited(_) | Event::Killed(_) => return Err(TraceError::Gone),
                Event::Signal(stopped, _)
                | Event::Halt(stopped, _)
                | Event::Made(stopped, _)
                | Event::Exec(stopped, _)
                | Event::Filter(stopped)
                | Event::Other(stopped) => stopped.resume_to_call_end()?,
            }
        }
    }

    /// Runs one instruction; a trap follows.
    pub(crate) fn step(self) -> Traced<()> {
        request(libc::PTRACE_SINGLESTEP, self.tid, 0, 0).map(drop)
    }

    /// Lets it go on without a tracer.
    pub fn detach(mut self, signal: i32) -> Traced<()> {
        self.restore_filters()?;
        request(libc::PTRACE_DETACH, self.tid, 0, signal as usize).map(drop)
    }
}

/// Whether the kernel had an answer: what it does not know, or a thread has not, it refuses.
fn told(answer: Traced<i64>) -> Traced<bool> {
    match answer {
        Err(TraceError::Failed(_)) => Ok(false),
        other => other.map(|_| true),
    }
}

const PTRACE_PEEKSIGINFO: u32 = 0x4209;

impl From<HostTid> for i32 {
    fn from(tid: HostTid) -> i32 {
        tid.0
    }
}
