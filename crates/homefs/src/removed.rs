//! Names in a room for removed files of home. A moved process has such a file open or mapped, and
//! its empty body opens the file by this name. The name lies in the root of the file's mount,
//! cannot be guessed, and contains the last name of the file, for programs that read the link of a
//! descriptor.

/// The prefix of such a name.
const PREFIX: &[u8] = b".tern-removed-";
/// The digits behind the prefix, and a colon.
const KEY_BYTES: usize = 32 + 1;
/// Replaces a slash.
const SLASH: u8 = 1;
/// The longest name, bytes (fs/ext4, and most others).
const NAME_BYTES: usize = 255;
/// The suffix that the kernel adds to the name of a removed file.
const ADDED: &[u8] = b" (deleted)";

/// Makes a name for the file that was called `path`. If it is too long, its beginning is left out.
pub(crate) fn name(key: u128, path: &[u8]) -> Vec<u8> {
    let room = NAME_BYTES - PREFIX.len() - KEY_BYTES;
    let path = &path[path.len().saturating_sub(room)..];
    let mut name = [PREFIX, format!("{key:032x}:").as_bytes()].concat();
    name.extend(path.iter().map(|b| if *b == b'/' { SLASH } else { *b }));
    name
}

/// Tells whether the last component of this path is such a name.
pub fn is_made_up(path: &[u8]) -> bool {
    last(path).starts_with(PREFIX)
}

/// Gives the target of a link as home's kernel shows it, if this kernel shows such a name.
pub fn shown(path: &[u8]) -> Option<Vec<u8>> {
    let called = last(path).strip_prefix(PREFIX)?.get(KEY_BYTES..)?;
    let called = called.strip_suffix(ADDED).unwrap_or(called);
    let mut shown: Vec<u8> = called.iter().map(|b| if *b == SLASH { b'/' } else { *b }).collect();
    shown.extend(ADDED);
    Some(shown)
}

fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let made_up = [b"/mnt/", name(7, b"/mnt/dir/file").as_slice()].concat();
        assert!(is_made_up(&made_up) && !is_made_up(b"/mnt/.tern-removed-x/y"));
        assert_eq!(shown(&made_up), Some(b"/mnt/dir/file (deleted)".to_vec()));
        assert_eq!(shown(&[&made_up, ADDED].concat()), Some(b"/mnt/dir/file (deleted)".to_vec()));
        assert_eq!((shown(b"/mnt/dir/file"), shown(b"/.tern-removed-1")), (None, None));
    }

    #[test]
    fn long_paths_keep_their_end() {
        let path = [&[b'a'; 300][..], b"/end"].concat();
        let name = name(u128::MAX, &path);
        assert_eq!(name.len(), NAME_BYTES);
        assert!(shown(&name).is_some_and(|shown| shown.ends_with(b"a/end (deleted)")));
    }
}
