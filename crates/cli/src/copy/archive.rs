//! The archive in which files travel: tar(5).

use std::io::{self, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Builder};

/// The role that writes an archive of a path to standard output: PATH `deep`|`flat`.
pub const PACK_ROLE: &str = "__pack";
/// The role that unpacks standard input to a path: PATH `one`|`many`.
pub const UNPACK_ROLE: &str = "__unpack";
/// So much is written at once, bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Runs one of the two roles. Gives the exit status.
pub fn role(words: &[String]) -> u8 {
    let done = match words {
        [role, path, how] if role == PACK_ROLE => pack(&[Path::new(path)], how == "deep", io::stdout().lock()),
        [role, path, how] if role == UNPACK_ROLE => unpack(io::stdin().lock(), Path::new(path), how == "one"),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    match done {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("tern cp: {e}");
            1
        }
    }
}

/// Writes an archive of files, each under its last name.
///
/// # Errors
/// A file cannot be read, or is a directory and `recursive` does not say so; nobody reads.
pub(super) fn pack(files: &[&Path], recursive: bool, to: impl Write) -> io::Result<()> {
    let mut archive = Builder::new(BufWriter::with_capacity(BUFFER_BYTES, to));
    archive.follow_symlinks(false);
    for file in files {
        let said = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", file.display()));
        // As for cp(1), a name on the command line is followed.
        let whole = std::fs::canonicalize(file).map_err(said)?;
        let name = file.file_name().or(whole.file_name()).map_or_else(|| PathBuf::from("root"), PathBuf::from);
        match whole.is_dir() {
            true if recursive => archive.append_dir_all(name, whole).map_err(said)?,
            true => return Err(said(io::Error::other("it is a directory (-r copies directories)"))),
            false => archive.append_path_with_name(whole, name).map_err(said)?,
        }
    }
    archive.into_inner()?.flush()
}

/// Unpacks an archive: into `target` if that is a directory. Else the one file of the archive
/// (`alone`) becomes the target, at once. Nothing gets outside.
///
/// # Errors
/// The archive is malformed or not whole; a file cannot be written; there are several files, and
/// the target is no directory.
pub(super) fn unpack(from: impl Read, target: &Path, alone: bool) -> io::Result<()> {
    let said = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", target.display()));
    if target.is_dir() {
        return unpack_into(from, target).map(drop).map_err(said);
    }
    if !alone {
        return Err(said(io::ErrorKind::NotADirectory.into()));
    }
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = tempfile::Builder::new().prefix(".tern-cp-").tempdir_in(parent).map_err(said)?;
    let name = unpack_into(from, made.path()).map_err(said)?;
    let name = name.ok_or_else(|| said(io::ErrorKind::UnexpectedEof.into()))?;
    std::fs::rename(made.path().join(name), target).map_err(said)
}

/// Gives the first name that was unpacked. Set-user-ID bits are left out: whoever packed a file
/// must not say as whom it runs here.
fn unpack_into(from: impl Read, directory: &Path) -> io::Result<Option<PathBuf>> {
    let mut archive = Archive::new(from);
    let mut first = None;
    for entry in archive.entries()? {
        let mut entry = entry?;
        if let Some(Component::Normal(name)) = entry.path()?.components().next() {
            first.get_or_insert_with(|| PathBuf::from(name));
        }
        entry.unpack_in(directory)?;
    }
    Ok(first)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    fn packed(files: &[&Path], recursive: bool) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        pack(files, recursive, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn a_file_becomes_the_target_or_goes_into_it() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("a"), "content").unwrap();
        std::fs::create_dir(at("d")).unwrap();
        let bytes = packed(&[&at("a")], false).unwrap();
        unpack(bytes.as_slice(), &at("b"), true).unwrap();
        unpack(bytes.as_slice(), &at("d"), true).unwrap();
        assert_eq!([at("b"), at("d/a")].map(|path| std::fs::read_to_string(path).unwrap()), ["content", "content"]);
        assert!(unpack(bytes.as_slice(), &at("nothing"), false).is_err());
        assert!(unpack(&bytes[..700], &at("part"), true).is_err() && !at("part").exists());
    }

    #[test]
    fn directories_want_a_word() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("d/e")).unwrap();
        std::os::unix::fs::symlink("/nowhere", place.path().join("d/link")).unwrap();
        let d = place.path().join("d");
        assert!(packed(&[&d], false).unwrap_err().to_string().contains("-r"));
        let bytes = packed(&[&d], true).unwrap();
        unpack(bytes.as_slice(), &place.path().join("copy"), true).unwrap();
        assert_eq!(std::fs::read_link(place.path().join("copy/link")).unwrap(), Path::new("/nowhere"));
        assert!(place.path().join("copy/e").is_dir());
    }

    #[test]
    fn no_rights_come_with_a_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        std::fs::write(at("a"), "").unwrap();
        std::fs::set_permissions(at("a"), std::fs::Permissions::from_mode(0o6751)).unwrap();
        unpack(packed(&[&at("a")], false).unwrap().as_slice(), &at("b"), true).unwrap();
        assert_eq!(std::fs::metadata(at("b")).unwrap().permissions().mode() & 0o7777, 0o751);
    }

    #[test]
    fn an_archive_of_a_strangers_writes_nothing_outside() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("in")).unwrap();
        let mut archive = Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        header.as_old_mut().name[..6].copy_from_slice(b"../out");
        header.set_cksum();
        archive.append(&header, &b"x"[..]).unwrap();
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        archive.append_link(&mut link, "way", place.path()).unwrap();
        header.as_old_mut().name[..7].copy_from_slice(b"way/out");
        header.set_cksum();
        archive.append(&header, &b"x"[..]).unwrap();
        let bytes = archive.into_inner().unwrap();
        let _ = unpack(bytes.as_slice(), &place.path().join("in"), false);
        assert!(!place.path().join("out").exists());
    }
}
