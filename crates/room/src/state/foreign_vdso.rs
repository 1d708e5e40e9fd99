//! Rooms whose kernel offers its guests other code than home's (vdso(7)), or code that reads a
//! wrong wall clock. What a program has found there it keeps, as addresses, so a process could
//! neither leave such a room nor come to it. So:
//!
//! - A program that begins there does not find the code at all: it makes the calls instead, as
//!   everywhere where a kernel has none.
//! - A process that comes finds at the old address a copy of home's code of which each function
//!   makes its call ([`checkpoint::ForeignVdso`]). The copy goes when it leaves.

use crate::state::guests::Guest;
use os::areas;
use os::inject::Memory;
use os::ptrace::{Stopped, TraceError};

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
}
