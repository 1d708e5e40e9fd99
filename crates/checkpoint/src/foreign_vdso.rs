//! Code of another kernel's vDSO (vdso(7)). A program keeps the addresses of its functions, so it
//! needs something at these addresses wherever it goes. A kernel whose own code differs maps that
//! elsewhere, and at the old address lies a copy of the old code of which each function makes its
//! call.

use crate::error::BodyError;
use image::{Area, Image, Vdso};
use libc::user_regs_struct;
use os::areas;
use os::inject::Memory;
use os::ptrace::{HostTid, Stopped};
use os::vdso::functions;

/// The code of another kernel, made to fit any.
#[derive(Debug)]
pub struct ForeignVdso {
    /// The other kernel's code, of which each function makes its call.
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

impl ForeignVdso {
    /// Makes the copy for processes that have used this code.
    pub fn new(home: &[u8]) -> ForeignVdso {
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
        ForeignVdso { copy, functions: beginnings }
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
        // Else the kernel would make the call again, from another place.
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
pub fn laid_out_with_foreign_vdso(image: &Image, free: u64) -> Image {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Failed once: a thread behind the call went on at home in the midst of other code.
    #[test]
    fn nobody_stays_in_the_midst_of_a_copy() {
        let foreign = ForeignVdso::new(&os::vdso::own());
        let home = Vdso { start: 0x1000, code: 0x5000, end: 0x7000 };
        assert!(foreign.functions.len() >= 4);
        // SAFETY: all zero is a valid register set.
        let zero: user_regs_struct = unsafe { std::mem::zeroed() };
        let restart = -512i64 as u64;
        for (function, nr) in foreign.functions.iter().map(|(f, nr)| (home.code + f, *nr)) {
            let outside = |at: u64, orig_rax: u64, rax: u64| {
                let registers = user_regs_struct { rip: function + at, rsp: 0x100, orig_rax, rax, ..zero };
                let found = foreign.outside(&registers, home, |at| (at == 0x100).then_some(0x42));
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
        let copy = ForeignVdso::new(&own).copy;
        assert_eq!(copy.len(), own.len());
        let found = functions(&copy).unwrap();
        let read = found.iter().find(|f| f.name == b"__vdso_clock_gettime").unwrap();
        assert_eq!(copy[read.at as usize..][..STUB_BYTES], [0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0xc3]);
        // Only the enclave's entry may be a function that this module does not know.
        let known = |name: &[u8]| CALLS.iter().any(|(call, _)| name.ends_with(call.as_bytes()));
        assert!(found.iter().all(|f| known(&f.name) || f.name.ends_with(b"sgx_enter_enclave")), "{found:?}");
    }
}
