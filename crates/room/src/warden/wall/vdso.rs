//! The kernel's functions for the wall clock, in a guest that has just begun a program: the names of the vDSO are made to lead to code behind its own, which makes the
//! call for clocks that have no namespace, and jumps to the kernel's code for the others. The loader, or a runtime without one, resolves the names after that.

use os::vdso::{Function, functions};
use systable::filter::WALL_CLOCKS;

/// Bytes to be put at an offset in the vDSO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Where, from the vDSO's beginning.
    pub at: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// Code begins at a multiple of this.
const ALIGNED: usize = 16;

/// What is to be changed in this vDSO (whole pages); `None` if it is not understood.
pub fn patches(image: &[u8]) -> Option<Vec<Patch>> {
    let functions = functions(image)?;
    let mut code = Vec::new();
    let start = end_of_file(image)?.next_multiple_of(ALIGNED);
    let mut patches = Vec::new();
    for function in &functions {
        let at = start + code.len();
        let Some(stub) = stub(function, at) else { continue };
        code.extend(stub);
        code.resize(code.len().next_multiple_of(ALIGNED), INT3);
        patches.push(Patch { at: function.symbol + VALUE, bytes: (at as u64).to_le_bytes().to_vec() });
    }
    let fits = !patches.is_empty() && start + code.len() <= image.len();
    patches.push(Patch { at: start as u64, bytes: code });
    fits.then_some(patches)
}

const INT3: u8 = 0xcc;
/// Offset of `st_value` in `Elf64_Sym`.
const VALUE: u64 = 8;

/// Behind the file's last byte, its section headers included (`e_shoff`, `e_shentsize`, `e_shnum`).
fn end_of_file(image: &[u8]) -> Option<usize> {
    let headers = usize::try_from(u64::from_le_bytes(image.get(0x28..0x30)?.try_into().ok()?)).ok()?;
    let half = |at: usize| Some(usize::from(u16::from_le_bytes(image.get(at..at + 2)?.try_into().ok()?)));
    headers.checked_add(half(0x3a)? * half(0x3c)?)
}

/// Code for this function that begins at this offset, if it is one of the wall clock's.
fn stub(function: &Function, at: usize) -> Option<Vec<u8>> {
    match function.name.as_slice() {
        b"gettimeofday" | b"__vdso_gettimeofday" => Some(call(libc::SYS_gettimeofday)),
        b"time" | b"__vdso_time" => Some(call(libc::SYS_time)),
        b"clock_gettime" | b"__vdso_clock_gettime" => Some(by_clock(function.at, at as u64)),
        _ => None,
    }
}

/// mov eax, nr; syscall; ret
fn call(nr: i64) -> Vec<u8> {
    let mut code = vec![0xb8];
    code.extend((nr as u32).to_le_bytes());
    code.extend([0x0f, 0x05, 0xc3]);
    code
}

/// For each of the clocks: cmp edi, clock; je call. Then: jmp kernels; call: ...
fn by_clock(kernels: u64, at: u64) -> Vec<u8> {
    const TEST_BYTES: u8 = 5;
    const JUMP_BYTES: u8 = 5;
    let mut code = Vec::new();
    for (left, clock) in (0..WALL_CLOCKS.len() as u8).rev().zip(WALL_CLOCKS) {
        code.extend([0x83, 0xff, clock as u8, 0x74, left * TEST_BYTES + JUMP_BYTES]);
    }
    let behind = at + code.len() as u64 + u64::from(JUMP_BYTES);
    code.push(0xe9);
    code.extend((kernels.wrapping_sub(behind) as u32).to_le_bytes());
    code.extend(call(libc::SYS_clock_gettime));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernels_own_is_understood() {
        let image = os::vdso::own();
        let patches = patches(&image).unwrap();
        let (code, symbols) = patches.split_last().unwrap();
        assert!(symbols.len() >= 3);
        // Nothing of the kernel's lies where the code goes.
        assert!(image[code.at as usize..][..code.bytes.len()].iter().all(|b| *b == 0));
        for symbol in symbols {
            let to = u64::from_le_bytes(symbol.bytes.as_slice().try_into().unwrap());
            assert!((code.at..code.at + code.bytes.len() as u64).contains(&to));
        }
    }

    #[test]
    fn the_other_clocks_jump_to_the_kernels_code() {
        let code = by_clock(0x100, 0x1000);
        assert_eq!(code[..5], [0x83, 0xff, 0, 0x74, 15]);
        assert_eq!(code[15], 0xe9);
        let to = i32::from_le_bytes(code[16..20].try_into().unwrap());
        assert_eq!(0x1000 + 20 + i64::from(to), 0x100);
        assert_eq!(code[20], 0xb8);
    }
}
