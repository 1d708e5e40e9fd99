//! The address of a symbol in a 64-bit ELF file (elf(5)).

use super::bytes::{u16_at, u32_at, u64_at};

const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const PROGRAM_BYTES: usize = 56;
/// Types of sections: SHT_SYMTAB, SHT_DYNSYM.
const SYMBOL_TABLES: [u32; 2] = [2, 11];
/// The type of a part that is loaded: PT_LOAD.
const LOADED: u32 = 1;
/// The type of an executable that has its own fixed addresses: ET_EXEC.
const FIXED: u16 = 2;

/// Where a symbol is, once its file is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The symbol's address in the file.
    pub address: u64,
    /// Whether that is its address in memory, too.
    pub is_fixed: bool,
    /// The address in the file of the part that begins at offset 0 of the file.
    pub base: u64,
}

impl Symbol {
    /// Gives the symbol's address in memory, if the first bytes of the file are mapped at `start`.
    pub fn in_memory(&self, start: u64) -> u64 {
        if self.is_fixed { self.address } else { start.wrapping_sub(self.base).wrapping_add(self.address) }
    }
}

/// Finds a symbol that is defined in a file. `None`: there is none, or the file is no 64-bit ELF
/// file of this machine's byte order.
pub fn symbol(file: &[u8], name: &str) -> Option<Symbol> {
    if !file.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let sections = usize::try_from(u64_at(file, 40)?).ok()?;
    let count = usize::from(u16_at(file, 60)?);
    let section = |index: usize| file.get(sections.checked_add(index.checked_mul(SECTION_BYTES)?)?..);
    let tables = (0..count)
        .filter_map(section)
        .filter(|header| u32_at(header, 4).is_some_and(|kind| SYMBOL_TABLES.contains(&kind)));
    for header in tables {
        let strings = section(u32_at(header, 40)? as usize).and_then(|strings| content(file, strings));
        if let (Some(symbols), Some(strings)) = (content(file, header), strings)
            && let Some(address) = find(symbols, strings, name)
        {
            return Some(Symbol { address, is_fixed: u16_at(file, 16)? == FIXED, base: base(file)? });
        }
    }
    None
}

/// The bytes of a section.
fn content<'a>(file: &'a [u8], header: &[u8]) -> Option<&'a [u8]> {
    let (at, length) = (usize::try_from(u64_at(header, 24)?).ok()?, usize::try_from(u64_at(header, 32)?).ok()?);
    file.get(at..at.checked_add(length)?)
}

fn find(symbols: &[u8], strings: &[u8], name: &str) -> Option<u64> {
    symbols.chunks_exact(SYMBOL_BYTES).find_map(|symbol| {
        let rest = strings.get(u32_at(symbol, 0)? as usize..)?;
        let is_named = rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0));
        let is_defined = u16_at(symbol, 6)? != 0;
        (is_named && is_defined).then(|| u64_at(symbol, 8))?
    })
}

/// The address in the file of the part that begins at offset 0.
fn base(file: &[u8]) -> Option<u64> {
    let programs = usize::try_from(u64_at(file, 32)?).ok()?;
    (0..usize::from(u16_at(file, 56)?)).find_map(|index| {
        let header = file.get(programs.checked_add(index.checked_mul(PROGRAM_BYTES)?)?..)?;
        (u32_at(header, 0)? == LOADED && u64_at(header, 8)? == 0).then(|| u64_at(header, 16))?
    })
}

/// Finds the number that a file was given when it was linked (the note NT_GNU_BUILD_ID).
pub fn build_id(file: &[u8]) -> Option<&[u8]> {
    const NOTES: u32 = 4;
    if !file.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let programs = usize::try_from(u64_at(file, 32)?).ok()?;
    (0..usize::from(u16_at(file, 56)?)).find_map(|index| {
        let header = file.get(programs.checked_add(index.checked_mul(PROGRAM_BYTES)?)?..)?;
        let (at, length) = (usize::try_from(u64_at(header, 8)?).ok()?, usize::try_from(u64_at(header, 32)?).ok()?);
        let notes = file.get(at..at.checked_add(length)?).filter(|_| u32_at(header, 0) == Some(NOTES))?;
        build_id_note(notes)
    })
}

fn build_id_note(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    const HEAD_BYTES: usize = 12;
    loop {
        let (name_bytes, content_bytes) = (u32_at(notes, 0)? as usize, u32_at(notes, 4)? as usize);
        let name = notes.get(HEAD_BYTES..HEAD_BYTES + name_bytes)?;
        let content_at = HEAD_BYTES + name_bytes.next_multiple_of(4);
        let content = notes.get(content_at..content_at + content_bytes)?;
        if u32_at(notes, 8)? == BUILD_ID && name == b"GNU\0" {
            return Some(content);
        }
        notes = notes.get(content_at + content_bytes.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_symbol_of_this_program_is_found() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let found = symbol(&own, "main").unwrap();
        assert!(found.address > 0);
        assert_eq!(symbol(&own, "no_such_symbol_of_this_program"), None);
    }

    #[test]
    fn the_number_of_a_build_is_found() {
        let note = |name: &[u8], kind: u32, content: &[u8]| {
            let mut bytes = (name.len() as u32).to_ne_bytes().to_vec();
            bytes.extend((content.len() as u32).to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            [bytes, name.to_vec(), content.to_vec()].concat()
        };
        let notes = [note(b"GNU\0", 1, &[0; 16]), note(b"GNU\0", 3, &[5; 20])].concat();
        assert_eq!(build_id_note(&notes), Some([5; 20].as_slice()));
        assert_eq!(build_id_note(&notes[..40]), None);
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(build_id(&own).is_none_or(|id| id.len() >= 8));
    }

    proptest! {
        #[test]
        fn any_notes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = build_id_note(&bytes);
        }

        #[test]
        fn any_file_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0u64..400) {
            let mut file = [b"\x7fELF\x02".to_vec(), bytes].concat();
            let _ = (symbol(&file, "a"), build_id(&file));
            if file.len() > 64 {
                file[40..48].copy_from_slice(&at.to_ne_bytes());
                let _ = symbol(&file, "a");
            }
        }
    }
}
