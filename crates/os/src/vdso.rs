//! The code that the kernel maps into every process (vdso(7)): a small shared library.

use crate::{areas, vm};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, Register, RegisterRule, UnwindContext, UnwindSection,
    X86_64,
};
use std::sync::OnceLock;

/// A function that it offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The name of the function.
    pub name: Vec<u8>,
    /// Offset of its code.
    pub at: u64,
    /// Offset of its `Elf64_Sym`.
    pub symbol: u64,
}

/// This kernel's, as this process has it: whole pages. Empty if there is none.
pub fn own() -> Vec<u8> {
    let pid = std::process::id() as i32;
    let found = areas::read(pid).ok().and_then(|all| all.into_iter().find(|a| a.name == b"[vdso]"));
    let Some(area) = found else { return Vec::new() };
    let mut image = vec![0; (area.end - area.start) as usize];
    match vm::read(pid, area.start, &mut image) {
        Ok(()) => image,
        Err(_) => Vec::new(),
    }
}

/// Whether a process has this kernel's there; `read` reads as much of it.
pub fn is_own(read: impl FnOnce(&mut [u8]) -> bool) -> bool {
    static OWN: OnceLock<Vec<u8>> = OnceLock::new();
    let own = OWN.get_or_init(own);
    let mut image = vec![0; own.len()];
    read(&mut image) && image == *own
}

/// Words of the ELF format (elf(5)).
const DYNAMIC: u64 = 2;
const TABLE_OF_STRINGS: u64 = 5;
const TABLE_OF_SYMBOLS: u64 = 6;
const FUNCTION: u8 = 2;
const HEADER_BYTES: u64 = 56;
const SYMBOL_BYTES: u64 = 24;

/// Tells where the program header of this kind lies.
fn header(image: &[u8], kind: u64) -> Option<usize> {
    let word = |at: usize, bytes: usize| {
        let bytes = image.get(at..at.checked_add(bytes)?)?;
        Some(bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
    };
    let (headers, count) = (word(0x20, 8)?, word(0x38, 2)?);
    let places = (0..count).filter_map(|i| usize::try_from(headers.checked_add(i * HEADER_BYTES)?).ok());
    places.into_iter().find(|at| word(*at, 4) == Some(kind))
}

/// Gives the functions of such a library; `None` if it is none.
pub fn functions(image: &[u8]) -> Option<Vec<Function>> {
    let bytes = |at: u64, count: usize| {
        let at = usize::try_from(at).ok()?;
        image.get(at..at.checked_add(count)?)
    };
    let long = |at: u64| Some(u64::from_le_bytes(bytes(at, 8)?.try_into().ok()?));
    (bytes(0, 5)? == b"\x7fELF\x02").then_some(())?;
    let dynamic = header(image, DYNAMIC)? as u64;
    let (start, size) = (long(dynamic + 8)?, long(dynamic + 32)?);
    let entry =
        |tag: u64| (0..size / 16).map(|i| start + i * 16).find(|at| long(*at) == Some(tag)).and_then(|at| long(at + 8));
    let (strings, symbols) = (entry(TABLE_OF_STRINGS)?, entry(TABLE_OF_SYMBOLS)?);
    // How many symbols there are is said nowhere plainly; in a vDSO the strings lie behind them.
    let count = strings.checked_sub(symbols)? / SYMBOL_BYTES;
    let mut found = Vec::new();
    for symbol in (0..count).map(|i| symbols + i * SYMBOL_BYTES) {
        let kind = *bytes(symbol + 4, 1)?.first()?;
        let (name, at) = (strings + (long(symbol)? & u64::from(u32::MAX)), long(symbol + 8)?);
        if kind & 0xf == FUNCTION && at != 0 {
            let rest = image.get(usize::try_from(name).ok()?..)?;
            let end = rest.iter().position(|b| *b == 0)?;
            found.push(Function { name: rest[..end].to_vec(), at, symbol });
        }
    }
    Some(found)
}

/// How one gets out of the functions of this kernel's.
#[derive(Debug)]
pub struct Exits {
    image: Vec<u8>,
    bases: BaseAddresses,
    /// Offset of a byte that is an instruction which traps (int3), wherever it lies: all of the
    /// image is mapped as code.
    trap: u64,
}

/// Found once. `None`: this kernel's says nothing of its frames.
pub fn exits() -> Option<&'static Exits> {
    static FOUND: OnceLock<Option<Exits>> = OnceLock::new();
    FOUND.get_or_init(|| Exits::of(own())).as_ref()
}

impl Exits {
    fn of(image: Vec<u8>) -> Option<Exits> {
        const FRAMES: u64 = 0x6474_e550;
        const TRAP: u8 = 0xcc;
        let at = header(&image, FRAMES)?;
        let index = u64::from_le_bytes(image.get(at + 16..at + 24)?.try_into().ok()?);
        let bases = BaseAddresses::default().set_eh_frame_hdr(index);
        let parsed = EhFrameHdr::new(image.get(index as usize..)?, LittleEndian).parse(&bases, 8).ok()?;
        let gimli::Pointer::Direct(frames) = parsed.eh_frame_ptr() else { return None };
        let trap = image.iter().position(|byte| *byte == TRAP)? as u64;
        Some(Exits { bases: bases.set_eh_frame(frames), trap, image })
    }

    /// Offset of an instruction that traps.
    pub fn trap(&self) -> u64 {
        self.trap
    }

    /// Tells where the address lies to which a function returns that is at offset `at`, with these
    /// registers: as its call frame information says (System V ABI for x86-64, 3.7; DWARF 5, 6.4).
    pub fn return_slot(&self, at: u64, registers: &libc::user_regs_struct) -> Option<u64> {
        let start = usize::try_from(self.bases.eh_frame.section?).ok()?;
        let frames = EhFrame::new(self.image.get(start..)?, LittleEndian);
        let mut context = UnwindContext::new();
        let row = frames.unwind_info_for_address(&self.bases, &mut context, at, EhFrame::cie_from_offset).ok()?;
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
        let frame = value(*register, registers)?.wrapping_add_signed(*offset);
        match row.register(X86_64::RA) {
            Some(RegisterRule::Offset(offset)) => Some(frame.wrapping_add_signed(offset)),
            _ => None,
        }
    }
}

/// Those that frames are told by.
fn value(register: Register, registers: &libc::user_regs_struct) -> Option<u64> {
    match register {
        X86_64::RSP => Some(registers.rsp),
        X86_64::RBP => Some(registers.rbp),
        X86_64::RBX => Some(registers.rbx),
        X86_64::R10 => Some(registers.r10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernels_functions_are_found() {
        let found = functions(&own()).unwrap();
        for name in ["__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time", "__vdso_getcpu"] {
            assert!(found.iter().any(|f| f.name == name.as_bytes()), "{name}");
        }
        assert!(functions(b"").is_none());
        assert!(functions(&own()[..0x200]).is_none_or(|f| f.is_empty()));
    }
}
