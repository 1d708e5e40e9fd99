//! The code that the kernel maps into every process (vdso(7)): a small shared library.

use crate::{areas, vm};

/// A function that it offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Name.
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

/// Words of the ELF format (elf(5)).
const DYNAMIC: u64 = 2;
const TABLE_OF_STRINGS: u64 = 5;
const TABLE_OF_SYMBOLS: u64 = 6;
const FUNCTION: u8 = 2;
const HEADER_BYTES: u64 = 56;
const SYMBOL_BYTES: u64 = 24;

/// The functions of such a library; `None` if it is none.
pub fn functions(image: &[u8]) -> Option<Vec<Function>> {
    let bytes = |at: u64, count: usize| {
        let at = usize::try_from(at).ok()?;
        image.get(at..at.checked_add(count)?)
    };
    let long = |at: u64| Some(u64::from_le_bytes(bytes(at, 8)?.try_into().ok()?));
    let half = |at: u64| Some(u64::from(u16::from_le_bytes(bytes(at, 2)?.try_into().ok()?)));
    (bytes(0, 5)? == b"\x7fELF\x02").then_some(())?;
    let (headers, count) = (long(0x20)?, half(0x38)?);
    let dynamic = (0..count)
        .map(|i| headers + i * HEADER_BYTES)
        .find(|at| long(*at).is_some_and(|word| word & u64::from(u32::MAX) == DYNAMIC))?;
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
