//! The build id of a program or library (elf(5), ld(1) --build-id).

use std::fs::File;
use std::os::unix::fs::FileExt;

const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
/// More than any program has.
const PROGRAM_HEADERS_MAX: usize = 64;
const NOTES_BYTES_MAX: usize = 64 << 10;
const ID_BYTES_MAX: usize = 64;
const PT_NOTE: u64 = 4;
const NT_GNU_BUILD_ID: u64 = 3;

/// Reads the build id; `None` if the file has none.
pub fn of(file: &File) -> Option<Vec<u8>> {
    let mut header = [0; HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    header.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let (at, count) = (word(&header, 0x20, 8)?, word(&header, 0x38, 2)? as usize);
    let mut headers = vec![0; count.min(PROGRAM_HEADERS_MAX) * PROGRAM_HEADER_BYTES];
    file.read_exact_at(&mut headers, at).ok()?;
    headers.chunks_exact(PROGRAM_HEADER_BYTES).find_map(|header| {
        (word(header, 0, 4)? == PT_NOTE).then_some(())?;
        let mut notes = vec![0; (word(header, 32, 8)? as usize).min(NOTES_BYTES_MAX)];
        file.read_exact_at(&mut notes, word(header, 8, 8)?).ok()?;
        in_notes(&notes)
    })
}

fn in_notes(mut notes: &[u8]) -> Option<Vec<u8>> {
    const HEAD_BYTES: usize = 12;
    loop {
        let (name_bytes, id_bytes) = (word(notes, 0, 4)? as usize, word(notes, 4, 4)? as usize);
        let id_at = HEAD_BYTES + name_bytes.checked_next_multiple_of(4)?;
        let id = notes.get(id_at..id_at.checked_add(id_bytes)?)?;
        if word(notes, 8, 4)? == NT_GNU_BUILD_ID && notes.get(HEAD_BYTES..)?.starts_with(b"GNU\0") {
            return (1..=ID_BYTES_MAX).contains(&id.len()).then(|| id.to_vec());
        }
        notes = notes.get(id_at + id_bytes.checked_next_multiple_of(4)?..)?;
    }
}

fn word(bytes: &[u8], at: usize, count: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(count)?)?;
    Some(bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;

    #[test]
    fn the_note_is_found_behind_others() {
        let note = |kind: u32, name: &[u8], id: &[u8]| {
            let mut out = (name.len() as u32).to_le_bytes().to_vec();
            out.extend((id.len() as u32).to_le_bytes());
            out.extend(kind.to_le_bytes());
            out.extend(name);
            out.extend(id);
            out
        };
        let notes = [note(5, b"GNU\0", &[0; 16]), note(3, b"GNU\0", &[1, 2, 3, 4])].concat();
        assert_eq!(in_notes(&notes), Some(vec![1, 2, 3, 4]));
        assert_eq!((in_notes(&notes[..40]), in_notes(&[0xff; 40])), (None, None));
    }

    #[test]
    fn what_is_no_program_has_none() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(of(&file), None);
        std::io::Write::write_all(&mut file, b"\x7fELF\x02\x01").unwrap();
        assert_eq!(of(&file), None);
    }
}
