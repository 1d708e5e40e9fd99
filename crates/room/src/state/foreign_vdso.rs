//! Rooms whose kernel offers its guests other code than home's (vdso(7)), or code that reads a
//! wrong wall clock. What a program has found there it keeps, as addresses, so a process could
//! neither leave such a room nor come to it. So:
//!
//! - A program that begins there does not find the code at all: it makes the calls instead, as
//!   everywhere where a kernel has none.
//! - A process that comes finds at the old address a copy of home's code of which each function
//!   makes its call. The copy goes when it leaves.

use crate::state::guests::Guest;
use checkpoint::BodyError;
use image::{Area, Image, Vdso};
use libc::user_regs_struct;
use os::areas;
use os::inject::Memory;
use os::ptrace::{HostTid, Stopped, TraceError};
use os::vdso::functions;

/// What such a room knows of its home.
#[derive(Debug)]
pub struct Strange {
    /// Home's code, of which each function makes its call.
    copy: Vec<u8>,
    /// Where these functions begin in it, and the calls that they make.
    functions: Vec<(u64, i64)>,
}

/// The functions, and the calls that do the same.
const CALLS: [(&str, i64); 6] = [
    ("clock_gettime", libc::SYS_clock_gettime),
    ("clock_getres", libc::SYS_clock_getres),
    ("gettimeofday", libc::SYS_gettimeofday),
    ("time", libc::SYS_time),
    ("getcpu", libc::SYS_getcpu),
    ("getrandom", libc::SYS_getrandom),
];

impl Strange {
    /// Of a home whose processes have this code.
    pub fn new(home: &[u8]) -> Strange {
        let (mut copy, mut beginnings) = (home.to_vec(), Vec::new());
        for function in functions(home).unwrap_or_default() {
            let bare = function.name.strip_prefix(b"__vdso_").unwrap_or(&function.name);
            let call = CALLS.iter().find(|(name, _)| name.as_bytes() == bare);
            if let Some((_, nr)) = call
                && let Some(place) = copy.get_mut(function.at as usize..).and_then(|rest| rest.get_mut(..STUB_BYTES))
            {
                place.copy_from_slice(&stub(*nr));
                beginnings.push((function.at, *nr));
            }
        }
        Strange { copy, functions: beginnings }
    }

    /// Stopped threads that are in a function of the copy go on outside, or from the function's
    /// beginning, which is home's wherever they go. No call is made meanwhile: it would not be
    /// filtered, and read this machine's clock.
    pub fn leave(&self, threads: &mut [Stopped], host: HostTid, home: Vdso) -> Result<(), BodyError> {
        let memory = Memory::of(host.0)?;
        for thread in threads {
            if let Some(registers) = self.outside(&thread.registers()?, home, |at| memory.word(at).ok()) {
                thread.set_registers(&registers)?;
            }
        }
        Ok(())
    }

    /// The registers of a thread with these there, if they change; `word` reads its memory.
    fn outside(
        &self,
        registers: &user_regs_struct,
        home: Vdso,
        word: impl Fn(u64) -> Option<u64>,
    ) -> Option<user_regs_struct> {
        let at = |function: u64| registers.rip.wrapping_sub(home.code + function);
        let is_inside = |(function, _): &(u64, i64)| [AT_CALL, BEHIND_CALL].contains(&at(*function));
        let (function, nr) = self.functions.iter().copied().find(is_inside)?;
        let interrupted = (registers.orig_rax as i64) >= 0 && MADE_AGAIN.contains(&(registers.rax as i64));
        // It is not to be made again from where it is.
        let mut outside = user_regs_struct { orig_rax: u64::MAX, ..*registers };
        if at(function) == AT_CALL || interrupted && nr != libc::SYS_getrandom {
            outside.rip = home.code + function;
            return Some(outside);
        }
        if interrupted {
            // The call has taken its fourth argument (rcx), so that it cannot be called anew; this
            // result it may have.
            outside.rax = -i64::from(libc::EINTR) as u64;
        }
        (outside.rip, outside.rsp) = (word(registers.rsp)?, registers.rsp + 8);
        Some(outside)
    }

    /// Puts the copy in its place.
    pub fn write(&self, memory: &Memory, home: Vdso) -> os::Result<()> {
        let bytes = self.copy.len().min((home.end - home.code) as usize);
        memory.write(home.code, &self.copy[..bytes])
    }
}

/// The image as it is laid out here: the kernel's own code at `free`, for tern's sake, and room for
/// the copy where home's was, if the process used that.
pub fn laid_out(image: &Image, free: u64) -> Image {
    let mut here = image.clone();
    here.process.vdso = own_layout(free);
    let protection = (libc::PROT_READ | libc::PROT_EXEC) as u8;
    let copy = |home: Vdso| Area { accounted: false, ..Area::anonymous(home.code, home.end, protection) };
    here.areas.extend(image.process.vdso.map(copy));
    here
}

/// mov eax, nr; syscall; ret
fn stub(nr: i64) -> [u8; STUB_BYTES] {
    let [a, b, c, d] = (nr as u32).to_le_bytes();
    [0xb8, a, b, c, d, 0x0f, 0x05, 0xc3]
}

const STUB_BYTES: usize = 8;
/// Where in it the call is made, and has been made.
const AT_CALL: u64 = 5;
const BEHIND_CALL: u64 = 7;
/// ERESTARTSYS to ERESTART_RESTARTBLOCK (linux/errno.h).
const MADE_AGAIN: std::ops::RangeInclusive<i64> = -516..=-512;

/// How this kernel would lay its pages out from there on.
fn own_layout(start: u64) -> Option<Vdso> {
    let all = areas::read(std::process::id() as i32).ok()?;
    let kernels = all.iter().filter(|a| is_kernels(&a.name));
    let first = kernels.map(|a| a.start).min()?;
    let code = all.iter().find(|a| a.name == VDSO)?;
    Some(Vdso { start, end: start + (code.end - first), code: start + (code.start - first) })
}

const VDSO: &[u8] = b"[vdso]";

fn is_kernels(name: &[u8]) -> bool {
    name == VDSO || name == b"[vvar]" || name == b"[vvar_vclock]"
}

/// The areas of a process that came, as they would be at home: what is the kernel's here is not
/// there, and the copy is the kernel's.
pub fn as_at_home(areas: &mut Vec<areas::Area>, guest: Option<&Guest>) {
    areas.retain(|a| !is_kernels(&a.name));
    let Some(home) = guest.and_then(|g| g.vdso) else { return };
    areas.iter_mut().filter(|a| (a.start, a.end) == (home.code, home.end)).for_each(|a| a.name = VDSO.to_vec());
}

/// Hides the kernel's code from a program that has just begun (`AT_SYSINFO_EHDR` of its auxiliary
/// vector, getauxval(3)).
pub fn hide(stopped: &Stopped) -> Result<(), TraceError> {
    let host = stopped.tid();
    let (Ok(Some(start)), Ok(memory)) = (os::process::vdso(host.0), Memory::of(host.0)) else { return Ok(()) };
    let stack = stopped.registers()?.rsp;
    let found = entry(start, |at, bytes| memory.read(stack + at, bytes).is_ok());
    match found.map(|at| memory.write(stack + at, &AT_IGNORE.to_ne_bytes())) {
        Some(Ok(())) => {}
        _ => tracing::error!("process {} sees the code of this kernel, not home's", host.0),
    }
    Ok(())
}

const AT_IGNORE: u64 = 1;
const AT_SYSINFO_EHDR: u64 = 33;
/// Arguments and environment lie before the vector, as addresses.
const LOOKED_AT_BYTES: u64 = 8 << 20;
const PIECE_BYTES: usize = 4096;

/// Where on the stack of a new program the entry for the kernel's code begins.
fn entry(start: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> Option<u64> {
    let wanted = [AT_SYSINFO_EHDR.to_ne_bytes(), start.to_ne_bytes()].concat();
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < LOOKED_AT_BYTES {
        // The stack may end with the piece.
        let count = [PIECE_BYTES, 512, 16].into_iter().find(|count| read(at, &mut piece[..*count]))?;
        if let Some(found) = piece[..count].windows(16).step_by(8).position(|w| w == wanted) {
            return Some(at + 8 * found as u64);
        }
        // An entry may lie across two pieces.
        at += (count as u64 - 8).max(8);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_is_found_wherever_it_lies() {
        for words in [0, 1, 510, 511, 512, 1021, 5000] {
            let mut stack: Vec<u64> = vec![0x7fff_0000_0033; words];
            stack.extend([33, 0x7000, 51, 0xd30, 0, 0]);
            let bytes: Vec<u8> = stack.iter().flat_map(|w| w.to_ne_bytes()).collect();
            let read = |at: u64, into: &mut [u8]| {
                let from = bytes.get(at as usize..).and_then(|b| b.get(..into.len()));
                from.map(|b| into.copy_from_slice(b)).is_some()
            };
            assert_eq!(entry(0x7000, read), Some(8 * words as u64), "{words}");
            assert_eq!(entry(0x8000, read), None);
        }
    }

    /// Failed once: a thread behind the call went on at home in the midst of other code.
    #[test]
    fn nobody_stays_in_the_midst_of_a_copy() {
        let strange = Strange::new(&os::vdso::own());
        let home = Vdso { start: 0x1000, code: 0x5000, end: 0x7000 };
        assert!(strange.functions.len() >= 4);
        // SAFETY: all zero is a valid register set.
        let zero: user_regs_struct = unsafe { std::mem::zeroed() };
        let restart = -512i64 as u64;
        for (function, nr) in strange.functions.iter().map(|(f, nr)| (home.code + f, *nr)) {
            let outside = |at: u64, orig_rax: u64, rax: u64| {
                let registers = user_regs_struct { rip: function + at, rsp: 0x100, orig_rax, rax, ..zero };
                let found = strange.outside(&registers, home, |at| (at == 0x100).then_some(0x42));
                found.map(|r| (r.rip, r.rsp, r.orig_rax, r.rax))
            };
            assert_eq!(outside(0, u64::MAX, 0), None);
            assert_eq!(outside(5, u64::MAX, 228), Some((function, 0x100, u64::MAX, 228)));
            assert_eq!(outside(7, 228, 0), Some((0x42, 0x108, u64::MAX, 0)));
            assert_eq!(outside(7, u64::MAX, restart), Some((0x42, 0x108, u64::MAX, restart)));
            let again = match nr {
                libc::SYS_getrandom => (0x42, 0x108, u64::MAX, -4i64 as u64),
                _ => (function, 0x100, u64::MAX, restart),
            };
            assert_eq!(outside(7, 228, restart), Some(again));
            assert_eq!(outside(8, 228, 0), None);
        }
    }

    #[test]
    fn every_function_of_a_copy_makes_its_call() {
        let own = os::vdso::own();
        let copy = Strange::new(&own).copy;
        assert_eq!(copy.len(), own.len());
        let found = functions(&copy).unwrap();
        let read = found.iter().find(|f| f.name == b"__vdso_clock_gettime").unwrap();
        assert_eq!(copy[read.at as usize..][..STUB_BYTES], [0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0xc3]);
        // What this kernel offers beyond these is not understood.
        let known = |name: &[u8]| CALLS.iter().any(|(call, _)| name.ends_with(call.as_bytes()));
        assert!(found.iter().all(|f| known(&f.name) || f.name.ends_with(b"sgx_enter_enclave")), "{found:?}");
    }
}
