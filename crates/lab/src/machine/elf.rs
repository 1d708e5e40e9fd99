//! Removal of debug information: a program's file is cut behind the last byte that is loaded.

/// Gives the part of a 64-bit ELF file that is loaded, without section headers; `None` if the file
/// is no such file.
pub fn loaded(file: &[u8]) -> Option<Vec<u8>> {
    let half = |at: usize| Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?));
    (file.get(..5)? == b"\x7fELF\x02").then_some(())?;
    let headers = usize::try_from(long(0x20)?).ok()?;
    let (size, count) = (usize::from(half(0x36)?), usize::from(half(0x38)?));
    let mut end = headers.checked_add(size * count)?;
    for index in 0..count {
        let header = headers + index * size;
        let segment = long(header + 0x08)?.checked_add(long(header + 0x20)?)?;
        end = end.max(usize::try_from(segment).ok()?);
    }
    let mut part = file.get(..end)?.to_vec();
    part[0x28..0x30].fill(0); // e_shoff
    part[0x3c..0x40].fill(0); // e_shnum, e_shstrndx
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loaded_parts_are_kept() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let part = loaded(&own).unwrap();
        assert!(part.len() < own.len());
        assert_eq!(part[0x40..0x1000], own[0x40..0x1000]);
        assert!(loaded(b"#!/bin/sh").is_none());
        assert!(loaded(&own[..0x100]).is_none());
    }
}
