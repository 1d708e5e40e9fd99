//! Files that a dump names: what tells one from another, and opening them again.

use crate::build_id;
use crate::error::{DumpFailed, refuse};
use image::File;
use image::dump::Identity;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// The flags with which files of a dump are opened. None of them makes or empties a file.
const FLAGS: i32 = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_DIRECTORY
    | libc::O_PATH
    | libc::O_NOFOLLOW
    | libc::O_DSYNC
    | libc::O_SYNC
    | libc::O_DIRECT
    | libc::O_NOATIME;

/// Gives the path of a file.
pub fn path(file: &File) -> &OsStr {
    OsStr::from_bytes(&file.path)
}

/// Reads what tells a file from others. `through`: a path that leads to the very file.
pub fn identity(through: &str, is_mapped: bool) -> io::Result<Identity> {
    let metadata = fs::metadata(through)?;
    // A device or a FIFO is not opened to look into it.
    let looks_inside = is_mapped && metadata.is_file();
    let build_id = if looks_inside { build_id::of(&fs::File::open(through)?) } else { None };
    Ok(of(&metadata, is_mapped, build_id.unwrap_or_default()))
}

fn of(metadata: &fs::Metadata, is_mapped: bool, build_id: Vec<u8>) -> Identity {
    let modified_ns = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    Identity { is_mapped, bytes: metadata.size(), modified_ns, build_id }
}

/// Opens a file of a dump with the rights of the caller.
///
/// # Errors
/// The file is not there, is of another kind, or, if it was mapped, is another one.
pub fn open(file: &File, wanted: &Identity, any: bool) -> Result<fs::File, DumpFailed> {
    let name = path(file).to_string_lossy();
    // A FIFO that has taken the name keeps nobody waiting.
    let flags = file.flags & FLAGS | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let mut options = fs::OpenOptions::new();
    match flags & libc::O_ACCMODE {
        libc::O_WRONLY => options.write(true),
        libc::O_RDWR => options.read(true).write(true),
        _ => options.read(true),
    };
    let opened = options.custom_flags(flags & !libc::O_ACCMODE).open(path(file));
    let opened = opened.or_else(|e| refuse(format!("it needs {name}, which cannot be opened: {e}")))?;
    let metadata = opened.metadata().or_else(|e| refuse(format!("it needs {name}: {e}")))?;
    let is_device = checkpoint::is_there_everywhere(&metadata) || is_terminal(&metadata);
    let is_fit = metadata.is_file() || metadata.is_dir() || is_device || file.flags & libc::O_PATH != 0;
    if !is_fit || wanted.is_mapped && !metadata.is_file() {
        return refuse(format!("it needs {name}, which is of another kind here"));
    }
    if wanted.is_mapped && !any {
        let found = of(&metadata, true, build_id::of(&opened).unwrap_or_default());
        if let Some(difference) = difference(wanted, &found) {
            return refuse(format!("it has {name} mapped, which {difference} here (--any-files uses it nevertheless)"));
        }
    }
    if file.flags & (libc::O_NONBLOCK | libc::O_PATH) == 0 {
        os::fds::set_nonblocking(std::os::fd::AsFd::as_fd(&opened), false)?;
    }
    Ok(opened)
}

/// Tells how a mapped file differs from the one that a dump names. Of two files with build ids only
/// these count: packages are built once, and installed at different times.
pub fn difference(wanted: &Identity, found: &Identity) -> Option<&'static str> {
    if !wanted.build_id.is_empty() && !found.build_id.is_empty() {
        return (wanted.build_id != found.build_id).then_some("has another build id");
    }
    if wanted.bytes != found.bytes {
        return Some("has another size");
    }
    (wanted.modified_ns != found.modified_ns).then_some("was changed at another time")
}

/// Tells whether this is a terminal (Documentation/admin-guide/devices.txt).
pub fn is_terminal(metadata: &fs::Metadata) -> bool {
    const CONSOLES: u32 = 4;
    const OTHERS: u32 = 5;
    const PSEUDO: std::ops::RangeInclusive<u32> = 136..=143;
    let major = libc::major(metadata.rdev());
    metadata.mode() & libc::S_IFMT == libc::S_IFCHR && (major == CONSOLES || major == OTHERS || PSEUDO.contains(&major))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
    use super::*;

    fn named(path: &std::path::Path, flags: i32) -> File {
        File { path: path.as_os_str().as_bytes().to_vec(), inode: 0, flags, removed: false }
    }

    #[test]
    fn another_file_of_that_name_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let wanted = identity(file.path().to_str().unwrap(), true).unwrap();
        let name = named(file.path(), libc::O_RDONLY);
        open(&name, &wanted, false).unwrap();
        fs::write(file.path(), "more").unwrap();
        assert!(open(&name, &wanted, false).unwrap_err().to_string().contains("another size"));
        open(&name, &wanted, true).unwrap();
        open(&name, &Identity { is_mapped: false, ..wanted }, false).unwrap();
    }

    #[test]
    fn the_build_id_counts_most() {
        let one = Identity { build_id: vec![1], bytes: 5, ..Identity::default() };
        assert_eq!(difference(&one, &Identity { bytes: 6, ..one.clone() }), None);
        assert_eq!(difference(&one, &Identity { build_id: vec![2], ..one.clone() }), Some("has another build id"));
        assert!(difference(&one, &Identity { build_id: vec![], bytes: 6, ..one.clone() }).is_some());
    }

    /// A hostile dump neither makes nor empties files, and a FIFO keeps nobody waiting.
    #[test]
    fn opening_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("kept");
        fs::write(&kept, "content").unwrap();
        let flags = libc::O_RDWR | libc::O_TRUNC | libc::O_CREAT;
        open(&named(&kept, flags), &Identity::default(), false).unwrap();
        assert_eq!(fs::read(&kept).unwrap(), b"content");
        let absent = directory.path().join("absent");
        assert!(open(&named(&absent, flags), &Identity::default(), false).is_err());
        assert!(!absent.exists());
        let fifo = directory.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let refused = open(&named(&fifo, libc::O_RDONLY), &Identity::default(), false).unwrap_err();
        assert!(refused.to_string().contains("another kind"), "{refused}");
    }
}
