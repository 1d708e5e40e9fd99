//! How a file of an image is opened at home. The node that hosts the process says its path and
//! flags, and may lie: whatever it says, the process gets a file that it may open itself, open as
//! an open file can be, and nothing happens by merely opening it.
//!
//! - The deputy opens it, with its own rights. Links of /proc that lead to open files, programs and
//!   directories (magic links) are not followed, but for those of its own stand-ins: by them a file
//!   that it has open, and may not open by name, would be had with another access mode.
//! - Only flags that describe an open file are passed on: O_TRUNC or O_CREAT would change files.
//! - Only regular files, directories and the devices that are there everywhere are opened: opening
//!   a FIFO wakes who waits for it, and opening a device may do whatever its driver does. What
//!   merely names a file (O_PATH) may name anything.

use checkpoint::BodyError;
use image::File;
use os::process::FdInfo;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// O_LARGEFILE of the kernel: 0 for libc here. open(2) adds it by itself, openat2(2) does not.
const LARGE: i32 = 0o100_000;
/// Flags that an open file can have, and that have no effect at its opening.
const HARMLESS: i32 = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_SYNC
    | libc::O_ASYNC
    | libc::O_DIRECT
    | libc::O_DIRECTORY
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_PATH
    | libc::O_CLOEXEC
    | LARGE;
/// Those that may stand beside O_PATH (openat2(2)).
const BESIDE_PATH: i32 = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
/// RESOLVE_NO_MAGICLINKS of openat2(2).
const NO_MAGIC_LINKS: u64 = 2;
/// Under it a process finds what it has open itself.
const OWN: &[u8] = b"/proc/self/fd/";

/// Flags and manner of openat2(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The flags of open(2).
    pub flags: i32,
    /// The flags of openat2(2) for the path.
    pub resolve: u64,
}

impl Opening {
    /// How to open a file; `standin` says what the deputy has open under a number, if that is a
    /// stand-in of its program's.
    ///
    /// # Errors
    /// The image wants what no open file is like, or more than the stand-in's access mode gives.
    pub fn of(file: &File, standin: impl Fn(i32) -> Option<FdInfo>) -> Result<Opening, BodyError> {
        let flags = flags(file)?;
        let Some(fd) = own_descriptor(&file.path).filter(|_| flags & libc::O_PATH == 0) else {
            return Ok(Opening { flags, resolve: NO_MAGIC_LINKS });
        };
        match standin(fd) {
            Some(info) if covers(info.flags, flags) => Ok(Opening { flags, resolve: 0 }),
            Some(_) => refused(file, "it has that open, but not in this way"),
            None => refused(file, "the deputy holds no such file for it"),
        }
    }

    /// Writes it as a `struct open_how`.
    pub fn bytes(self) -> Vec<u8> {
        // O_ flags are no more than 32 bits.
        [u64::from(self.flags as u32), 0, self.resolve].iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// The flags by which a file of an image is opened.
///
/// # Errors
/// There are some among them that no open file has.
pub fn flags(file: &File) -> Result<i32, BodyError> {
    let odd = file.flags & !HARMLESS;
    if odd != 0 {
        return refused(file, &format!("no open file has flags {odd:#o}"));
    }
    Ok(match file.flags & libc::O_PATH {
        0 => file.flags | LARGE | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK,
        _ => file.flags & BESIDE_PATH | libc::O_CLOEXEC,
    })
}

/// Whether a file that is open with the flags `had` may be opened again with the flags `wanted`.
pub fn covers(had: i32, wanted: i32) -> bool {
    let mode = |flags: i32| flags & libc::O_ACCMODE;
    let only_names = had & libc::O_PATH != 0;
    wanted & libc::O_PATH != 0 || (!only_names && (mode(had) == libc::O_RDWR || mode(had) == mode(wanted)))
}

/// Checks that a file is of a kind whose opening does nothing else. `found`: what is there.
///
/// # Errors
/// Whether the file is a FIFO, a socket or a device.
pub fn check_kind(file: &File, found: &Metadata) -> Result<(), BodyError> {
    let is_harmless = found.is_file() || found.is_dir() || checkpoint::is_there_everywhere(found);
    match is_harmless || file.flags & libc::O_PATH != 0 {
        true => Ok(()),
        false => refused(file, "it is no regular file, and opening it could have effects"),
    }
}

/// Checks that what was opened is what was meant: an image names files by path and inode, but for
/// what has another inode wherever it is (devices that are there everywhere, and what a kernel says
/// of a process).
pub fn is_meant(file: &File, inode: u64, found: &Metadata) -> bool {
    match file.inode {
        0 => {
            checkpoint::is_there_everywhere(found) || file.path.starts_with(b"/proc/") || file.flags & libc::O_PATH != 0
        }
        meant => meant == inode,
    }
}

/// The path by which this process reaches what process `pid` reaches by a path.
pub fn as_seen_by(pid: i32, path: &[u8]) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(path));
    match path.strip_prefix("/proc/self") {
        Ok(rest) => Path::new("/proc").join(pid.to_string()).join(rest),
        Err(_) => path.to_owned(),
    }
}

/// The number that a path names, if it is one of an own descriptor's.
fn own_descriptor(path: &[u8]) -> Option<i32> {
    let digits = path.strip_prefix(OWN).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn refused<T>(file: &File, why: &str) -> Result<T, BodyError> {
    Err(BodyError::NotMigratable(format!(
        "its file {} cannot be opened at home: {why}",
        String::from_utf8_lossy(&file.path)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, flags: i32) -> File {
        File { path: path.into(), inode: 7, flags, removed: false }
    }

    fn open_as(flags: i32) -> FdInfo {
        let null = std::fs::File::open("/dev/null").unwrap();
        let info = os::process::fd_info(std::process::id() as i32, std::os::fd::AsRawFd::as_raw_fd(&null)).unwrap();
        FdInfo { flags, ..info }
    }

    #[test]
    fn flags_that_act_are_refused() {
        let acting =
            [libc::O_TRUNC, libc::O_CREAT, libc::O_EXCL, libc::O_TMPFILE & !libc::O_DIRECTORY, i32::MIN, 1 << 26];
        for bad in acting {
            assert!(flags(&file("/etc/passwd", libc::O_RDWR | bad)).is_err(), "{bad:#o}");
        }
        let given = flags(&file("/x", libc::O_WRONLY | libc::O_APPEND)).unwrap();
        assert_eq!(
            given & (libc::O_ACCMODE | libc::O_APPEND | libc::O_NOCTTY),
            libc::O_WRONLY | libc::O_APPEND | libc::O_NOCTTY
        );
        let named = flags(&file("/x", libc::O_PATH | libc::O_NOFOLLOW | libc::O_RDWR | LARGE)).unwrap();
        assert_eq!(named, libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC);
    }

    #[test]
    fn own_descriptors_give_no_more_than_they_are() {
        let (r, w, rw, path) = (libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR, libc::O_PATH);
        for (had, wanted, allowed) in [
            (r, r, true),
            (r, w, false),
            (r, rw, false),
            (w, w, true),
            (w, r, false),
            (w, rw, false),
            (rw, r, true),
            (rw, w, true),
            (rw, rw, true),
            (path, r, false),
            (path, w, false),
            (path | rw, rw, false),
            (r, 3, false),
        ] {
            let standin = |fd: i32| (fd == 5).then(|| open_as(had));
            let opening = Opening::of(&file("/proc/self/fd/5", wanted), standin);
            assert_eq!(opening.is_ok_and(|o| o.resolve == 0), allowed, "{had:#o} {wanted:#o}");
            assert!(Opening::of(&file("/proc/self/fd/6", wanted), standin).is_err(), "no stand-in");
        }
    }

    /// Only the very form that tern itself makes is exempt from the kernel's refusal.
    #[test]
    fn other_magic_links_are_left_to_the_kernel_to_refuse() {
        for path in
            ["/proc/self/fd/5/../6", "/proc/1/fd/5", "/proc/self/fd/", "/proc/self/fd/+5", "/proc/self/exe", "/a"]
        {
            let opening = Opening::of(&file(path, libc::O_RDONLY), |_| Some(open_as(libc::O_RDWR)));
            assert!(opening.is_err() || opening.unwrap().resolve == NO_MAGIC_LINKS, "{path}");
        }
        let null = std::fs::File::open("/dev/null").unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&null));
        let resolve = rustix::fs::ResolveFlags::from_bits_retain(NO_MAGIC_LINKS);
        let opened =
            rustix::fs::openat2(rustix::fs::CWD, path, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty(), resolve);
        assert_eq!(opened.unwrap_err(), rustix::io::Errno::LOOP);
    }

    #[test]
    fn opening_has_no_effects() {
        let dir = std::env::temp_dir().join(format!("tern-reopened-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (plain, fifo, socket) = (dir.join("plain"), dir.join("fifo"), dir.join("socket"));
        std::fs::write(&plain, "x").unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let check = |path: &Path, flags: i32| {
            check_kind(&file(path.to_str().unwrap(), flags), &std::fs::metadata(path).unwrap()).is_ok()
        };
        for (path, harmless) in [
            (plain.as_path(), true),
            (&dir, true),
            (Path::new("/dev/null"), true),
            (Path::new("/proc/self/status"), true),
            (&fifo, false),
            (&socket, false),
            (Path::new("/dev/ptmx"), false),
            (Path::new("/dev/tty"), false),
        ] {
            assert_eq!((check(path, libc::O_RDWR), check(path, libc::O_PATH)), (harmless, true), "{}", path.display());
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Without its inode a file could be any.
    #[test]
    fn files_are_meant_by_inode() {
        let (null, passwd) = (std::fs::metadata("/dev/null").unwrap(), std::fs::metadata("/etc/passwd").unwrap());
        let nameless = |path: &str| File { inode: 0, ..file(path, libc::O_RDONLY) };
        assert!(is_meant(&file("/etc/passwd", 0), 7, &passwd) && !is_meant(&file("/etc/passwd", 0), 8, &passwd));
        assert!(is_meant(&nameless("/dev/null"), 3, &null) && is_meant(&nameless("/proc/self/maps"), 3, &passwd));
        assert!(!is_meant(&nameless("/etc/passwd"), 3, &passwd));
    }

    #[test]
    fn a_path_of_the_process_is_not_ours() {
        assert_eq!(as_seen_by(9, b"/proc/self/status"), Path::new("/proc/9/status"));
        assert_eq!(as_seen_by(9, b"/proc/selfish"), Path::new("/proc/selfish"));
    }
}
