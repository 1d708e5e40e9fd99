//! Names in a room for files of the home that have none there any more: a moved process has them open or mapped, and its empty body opens them by such a name. It lies in
//! the root of their mount, cannot be guessed, and says what the file was called, for whoever asks where a descriptor leads.

/// What the name begins with.
const PREFIX: &[u8] = b".tern-removed-";
/// Digits behind it, and a colon.
const KEY_BYTES: usize = 32 + 1;
/// In the place of a slash.
const SLASH: u8 = 1;
/// Bytes of a name (fs/ext4, and most others).
const NAME_BYTES: usize = 255;
/// What the kernel says behind the name of a removed file.
const ADDED: &[u8] = b" (deleted)";

/// A name for the file that was called `path`; what does not fit is left out at its beginning.
pub(crate) fn name(key: u128, path: &[u8]) -> Vec<u8> {
    let room = NAME_BYTES - PREFIX.len() - KEY_BYTES;
    let path = &path[path.len().saturating_sub(room)..];
    let mut name = [PREFIX, format!("{key:032x}:").as_bytes()].concat();
    name.extend(path.iter().map(|b| if *b == b'/' { SLASH } else { *b }));
    name
}

/// Whether the last component of this path is such a name.
pub fn is_made_up(path: &[u8]) -> bool {
    last(path).starts_with(PREFIX)
}

/// What the kernel of the home says where a link leads, if this kernel says such a name.
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
